package reconcile

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// progress is how an operation gets on: what was observed of it last, and since when.
type progress struct {
	seen  string
	at    time.Time
	meter *meter // nil before its job has said anything
}

// addProgress adds how the operation of w gets on, and when it last did. Time in which it
// could not be observed, or in which its image was pulled, does not count against it.
func (l *loop) addProgress(w workspace.Workspace, o *workspace.Observation) {
	if w.Operation == workspace.OpNone {
		delete(l.progress, w.ID)
		return
	}
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
	p := l.progress[w.ID]
	if p.seen != b.String() || o.Unseen != 0 || o.Pull != nil {
		p.seen, p.at = b.String(), time.Now()
	}
	o.ProgressAt = now().Add(-time.Since(p.at)) // a clock that was set does not count
	if line, ok := newestLine(w, o.Jobs); ok {
		if p.meter == nil {
			p.meter = new(meter)
		}
		p.meter.add(line, w.Home.Bytes, time.Now())
		o.Progress = p.meter.progress()
	}
	l.progress[w.ID] = p
}

// addWait moves the last progress by the time that a task has waited for its turn.
func (l *loop) addWait(t task) {
	if p, ok := l.progress[t.row.ID]; ok {
		p.at = p.at.Add(t.waited)
		l.progress[t.row.ID] = p
	}
}

// newestLine returns what the running job of w's operation has said last.
func newestLine(w workspace.Workspace, jobs []workspace.Job) (line contract.Progress, ok bool) {
	opID := w.ArchiveOpID
	if w.Operation == workspace.OpRestoring {
		opID = w.HomeCtx.RestoreOpID
	}
	for _, j := range jobs {
		if j.OpID == opID && j.State == workspace.JobRunning && j.Progress != "" {
			return line, json.Unmarshal([]byte(j.Progress), &line) == nil
		}
	}
	return line, false
}

// The pace of saving progress: at most every progressMin for one workspace, and no more
// than one save per progressShare in all.
const (
	progressMin   = 3 * time.Second
	progressShare = 20 * time.Millisecond
)

// progressEvery is how often the progress of one operation may be saved: the less often,
// the more operations there are.
func (l *loop) progressEvery() time.Duration {
	return max(progressMin, time.Duration(len(l.progress))*progressShare)
}

// meter turns the lines of a job into its progress. The rate is that of the present step,
// the last seconds of it more than those before: a step that slows down must not promise
// what it was.
type meter struct {
	newest workspace.Progress
	rate   float64   // in bytes per second; 0 while it is unknown
	began  time.Time // the present step
	last   time.Time // when the rate was last updated
	done   int64     // at that time
	moved  time.Time // when the job last got on
}

const (
	// rateSpan is the time in which the weight of older seconds falls to a third.
	rateSpan = 10 * time.Second
	// rateAfter is how long a step must have gone on before its rate says anything.
	rateAfter = time.Second
	// rateLost is how long a job may stand still before nobody knows how long it takes.
	rateLost = 30 * time.Second
)

// add adds the newest line, which may have come before, and the size of the home if it is
// known.
func (m *meter) add(line contract.Progress, home int64, now time.Time) {
	next := workspace.Progress{Step: line.Step, Bytes: line.Bytes, Files: line.Files}
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
func (m *meter) progress() *workspace.Progress {
	p := m.newest
	return &p
}

// amount returns how much of the work of a step is behind, and how much it is in all: what
// the job says, or when it packs, the size of the home as it was last measured. That may
// be too small by now: then nobody knows.
func amount(line contract.Progress, home int64) (done, total int64) {
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
