package main

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// reporter prints progress at intervals and at every new step, one JSON object per line (see [contract.ProgressLine]). Its
// counters are safe for concurrent use, and the job updates them without knowing who prints them.
type reporter struct {
	tree.Counter
	transferred, total atomic.Int64 // bytes of the archive; total is 0 while unknown

	about contract.About
	start time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	out   *json.Encoder
	step  string
	began time.Time // of the step

	stages []contract.Stage
}

// newReporter starts a reporter that prints at the interval. finish ends it. It prints nothing before the first step.
func newReporter(w io.Writer, about contract.About, interval time.Duration) *reporter {
	r := &reporter{about: about, start: time.Now(), stop: make(chan struct{}), out: json.NewEncoder(w)}
	r.out.SetEscapeHTML(false)
	r.done.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.mu.Lock()
				if r.step != "" {
					r.print()
				}
				r.mu.Unlock()
			case <-r.stop:
				return
			}
		}
	})
	return r
}

// enter begins a step, one of the Step constants of package contract, and prints it.
func (r *reporter) enter(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(step)
}

// begin is enter for a step that transfers total bytes of the archive. No line combines the new numbers with the old
// step.
func (r *reporter) begin(step string, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.transferred.Store(0)
	r.total.Store(total)
	r.change(step)
}

// change begins a step and prints it; r.mu is held.
func (r *reporter) change(step string) {
	r.step, r.began = step, time.Now()
	if len(r.stages) < contract.MaxStages {
		r.stages = append(r.stages, contract.Stage{Step: step, At: round(r.began.Sub(r.start).Seconds())})
	}
	r.print()
}

// print writes a progress line; r.mu is held. It ignores errors: a closed pipe must not
// end the work.
func (r *reporter) print() {
	seconds := time.Since(r.start).Seconds()
	p := contract.ProgressLine{
		About: r.about, Event: contract.EventProgress, Step: r.step,
		Bytes: r.Bytes.Load(), Files: r.Files.Load(), Seconds: round(seconds),
		Transferred: r.transferred.Load(), Total: r.total.Load(),
	}
	p.BytesPerSecond = int64(float64(p.Bytes) / max(seconds, 0.001))
	if p.Total > 0 && p.Transferred > 0 {
		eta := round(time.Since(r.began).Seconds() * float64(p.Total-p.Transferred) / float64(p.Transferred))
		p.ETA = &eta
	}
	_ = r.out.Encode(p)
}

// finish stops the progress lines and prints the result with the final counts. The coordinator reads this last line.
func (r *reporter) finish(res contract.Result, err error) {
	close(r.stop)
	r.done.Wait()
	res.About, res.Began = r.about, r.start.UnixMilli()
	res.Event, res.OK, res.Contract = contract.EventResult, err == nil, contract.Version
	res.Bytes, res.Files, res.Skipped = r.Bytes.Load(), r.Files.Load(), r.Skipped.Load()
	res.Seconds = round(time.Since(r.start).Seconds())
	if err != nil {
		res.Error = err.Error()
		var changed *tree.ChangedError
		if errors.As(err, &changed) {
			res.Changed = changed.Name
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	res.Stages = r.stages
	_ = r.out.Encode(res)
}

// round truncates a number of seconds to milliseconds.
func round(seconds float64) float64 { return float64(int64(seconds*1000)) / 1000 }

// transferWriter counts the bytes of the archive that have been transferred.
type transferWriter struct{ r *reporter }

// Write implements io.Writer. It never fails.
func (t transferWriter) Write(p []byte) (int, error) {
	t.r.transferred.Add(int64(len(p)))
	return len(p), nil
}
