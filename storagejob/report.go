package main

import (
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/storagejob/tree"
)

// The steps that progress lines name.
const (
	stepArchive = "archive" // reading the volume and uploading
	stepCommit  = "commit"  // making the upload count
	stepUnpack  = "unpack"  // downloading into staging
	stepSwap    = "swap"    // making the volume equal to what was unpacked
)

// progress is a line of output while the job works.
type progress struct {
	Event string `json:"event"` // "progress"
	Step  string `json:"step"`
	// Bytes and Files count what has been read from or written to the volume.
	Bytes   int64   `json:"bytes"`
	Files   int64   `json:"files"`
	Seconds float64 `json:"seconds"`
	// BytesPerSecond is the mean since the start.
	BytesPerSecond int64 `json:"bytes_per_second"`
	// Transferred of Total is how much of the archive has passed. Total and ETA, in
	// seconds, are absent when nobody can know: an archive's size while it is made.
	Transferred int64    `json:"transferred"`
	Total       int64    `json:"total,omitempty"`
	ETA         *float64 `json:"eta,omitempty"`
}

// result is the last line of output.
type result struct {
	Event string `json:"event"` // "result"
	OK    bool   `json:"ok"`
	// Size and SHA256 are the archive's.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Bytes and Files count the volume's content. Both are 0 when the work had been
	// done by an earlier run; Done says so.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Skipped counts sockets, fifos and devices that were not archived, or
	// attributes that the volume's file system could not take.
	Skipped int64   `json:"skipped"`
	Done    bool    `json:"done_before"`
	Seconds float64 `json:"seconds"`
	Error   string  `json:"error"`
}

// reporter prints progress at intervals and at every new step. Its counters may be
// raised from any goroutine.
type reporter struct {
	tree.Counter
	transferred, total atomic.Int64

	start time.Time
	stop  chan struct{}
	done  sync.WaitGroup

	mu   sync.Mutex // guards what follows
	out  *json.Encoder
	step string
}

// newReporter starts a reporter; finish ends it.
func newReporter(w io.Writer, interval time.Duration) *reporter {
	r := &reporter{start: time.Now(), stop: make(chan struct{}), out: json.NewEncoder(w)}
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

// enter prints that a step begins.
func (r *reporter) enter(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = step
	r.print()
}

// print writes a progress line. Output that nobody reads is no reason to fail.
func (r *reporter) print() {
	seconds := time.Since(r.start).Seconds()
	p := progress{
		Event: "progress", Step: r.step,
		Bytes: r.Bytes.Load(), Files: r.Files.Load(), Seconds: round(seconds),
		Transferred: r.transferred.Load(), Total: r.total.Load(),
	}
	p.BytesPerSecond = int64(float64(p.Bytes) / max(seconds, 0.001))
	if p.Total > 0 && p.Transferred > 0 {
		eta := round(seconds * float64(p.Total-p.Transferred) / float64(p.Transferred))
		p.ETA = &eta
	}
	_ = r.out.Encode(p)
}

// finish prints the result, filled up with what was counted.
func (r *reporter) finish(res result, err error) {
	close(r.stop)
	r.done.Wait()
	res.Event, res.OK = "result", err == nil
	res.Bytes, res.Files, res.Skipped = r.Bytes.Load(), r.Files.Load(), r.Skipped.Load()
	res.Seconds = round(time.Since(r.start).Seconds())
	if err != nil {
		res.Error = err.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.out.Encode(res)
}

func round(seconds float64) float64 { return float64(int64(seconds*1000)) / 1000 }

// countWriter raises transferred.
type countWriter struct{ r *reporter }

func (c countWriter) Write(p []byte) (int, error) {
	c.r.transferred.Add(int64(len(p)))
	return len(p), nil
}
