package observation

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Tracker follows the progress of one operation: the last observed progress, and since when it is unchanged. It uses
// the monotonic clock, so that a change of the machine's time has no effect.
type Tracker struct {
	seen  string
	at    time.Time
	meter *meter // nil before its job has said anything
}

// Add adds to o the progress of w's operation, and the time at which the operation last made progress. That time is by
// the database's clock, which shows now. Time during which the progress could not be observed, or the image was being
// pulled, does not count against the operation.
func (t *Tracker) Add(w workspace.Workspace, o *workspace.Observation, now time.Time) {
	var b strings.Builder
	fmt.Fprint(&b, w.Operation, w.OpStartedAt, o.Volume != nil, o.Container != nil)
	if k := o.Container; k != nil && k.Pending != nil {
		fmt.Fprint(&b, k.Pending.Reason) // it has a node now, or its volume
	}
	for _, j := range o.Jobs {
		fmt.Fprint(&b, j.Kind, j.OpID, j.State, j.Progress)
		if j.Pending != nil {
			fmt.Fprint(&b, j.Pending.Reason)
		}
	}
	if t.seen != b.String() || o.Unseen != 0 || o.Pull != nil {
		t.seen, t.at = b.String(), time.Now()
	}
	o.ProgressAt = now.Add(-time.Since(t.at))
	if line, ok := newestLine(w, o.Jobs); ok {
		if t.meter == nil {
			t.meter = new(meter)
		}
		t.meter.add(line, w.Home.Bytes, time.Now())
		o.Progress = t.meter.progress()
	}
}

// Waited moves the time of the last progress by d: the time that an actuator's call waited for its turn.
func (t *Tracker) Waited(d time.Duration) { t.at = t.at.Add(d) }

// newestLine returns the last line that the running job of w's operation has reported.
func newestLine(w workspace.Workspace, jobs []workspace.Job) (line contract.ProgressLine, ok bool) {
	for _, j := range jobs {
		if j.OpID == w.JobOpID() && j.State == workspace.JobRunning && j.Progress != "" {
			return line, json.Unmarshal([]byte(j.Progress), &line) == nil
		}
	}
	return line, false
}

// meter turns the lines of a job into its progress. The rate is that of the present step. Recent seconds count more
// than earlier ones, so that the rate of a step that slows down falls soon.
type meter struct {
	newest workspace.JobProgress
	rate   float64   // in bytes per second; 0 while it is unknown
	began  time.Time // the present step
	last   time.Time // when the rate was last updated
	done   int64     // at that time
	moved  time.Time // when the job last made progress
}

const (
	// rateSpan is the time after which the weight of a measurement has fallen to about a third.
	rateSpan = 10 * time.Second
	// rateAfter is how long a step must have gone on before its rate means anything.
	rateAfter = time.Second
	// rateLost is how long a job may stand still before its rate counts as unknown.
	rateLost = 30 * time.Second
)

// add adds the job's newest line, which may be the same as the last time. home is the size of the home, if it is known.
func (m *meter) add(line contract.ProgressLine, home int64, now time.Time) {
	next := workspace.JobProgress{Step: line.Step, Bytes: line.Bytes, Files: line.Files}
	next.Done, next.Total = amount(line, home)
	was := m.newest
	if next.Step != was.Step || next.Done < was.Done {
		*m = meter{newest: next, began: now, last: now, done: next.Done, moved: now}
		m.newest.At = now
		return
	}
	if next.Bytes != was.Bytes || next.Files != was.Files || next.Done != was.Done {
		m.moved = now
	}
	if elapsed := now.Sub(m.last); elapsed >= rateAfter/2 && now.Sub(m.began) >= rateAfter {
		measured := float64(next.Done-m.done) / elapsed.Seconds()
		if m.rate == 0 {
			m.rate = measured
		} else {
			m.rate += (measured - m.rate) * (1 - math.Exp(-elapsed.Seconds()/rateSpan.Seconds()))
		}
		m.last, m.done = now, next.Done
	}
	if now.Sub(m.moved) >= rateLost {
		m.rate = 0
	}
	next.Rate, next.At = int64(m.rate), now
	m.newest = next
}

// progress returns a copy of the newest progress.
func (m *meter) progress() *workspace.JobProgress {
	p := m.newest
	return &p
}

// amount returns how much of a step's work is done, and the total. The total is the one that the job reports. An
// archive job reports none, so its total is the last measured size of the home, or unknown if more than that is done
// already.
func amount(line contract.ProgressLine, home int64) (done, total int64) {
	switch line.Step {
	case contract.StepCommit, contract.StepSwap: // they count nothing
		return 0, 0
	case contract.StepArchive:
		if home < line.Bytes {
			home = 0
		}
		return line.Bytes, home
	}
	if line.Total < line.Transferred {
		return line.Transferred, 0
	}
	return line.Transferred, line.Total
}
