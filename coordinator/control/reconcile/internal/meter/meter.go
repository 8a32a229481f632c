// Package meter tells from the lines of a storage job how it gets on: how much of its present
// step is behind, and how fast. It must not read a clock or know of any workspace.
package meter

import (
	"math"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Meter turns the lines of a job into its progress. The rate is that of the present step,
// the last seconds of it more than those before: a step that slows down must not promise
// what it was.
type Meter struct {
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

// Add adds the newest line, which may have come before, and the size of the home if it is
// known.
func (m *Meter) Add(line contract.Progress, home int64, now time.Time) {
	next := workspace.Progress{Step: line.Step, Bytes: line.Bytes, Files: line.Files}
	next.Done, next.Total = amount(line, home)
	was := m.newest
	if next.Step != was.Step || next.Done < was.Done {
		*m = Meter{newest: next, began: now, last: now, done: next.Done, moved: now}
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

// Progress returns a copy of the newest progress.
func (m *Meter) Progress() *workspace.Progress {
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
