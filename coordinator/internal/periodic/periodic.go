// Package periodic calls a function at an interval. The TTL runner, the garbage collector and the activity buffer use
// it. It owns the timing and the log lines. An error or a panic skips only one call, and a lasting fault is logged once
// (SPEC 5). It must not retry before the next interval, nor limit how long a call takes.
package periodic

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
)

// Loop calls a function at an interval that can change while it runs.
type Loop struct {
	work     func(context.Context) error
	interval atomic.Int64
	wake     chan struct{}
	changed  chan struct{}
	outage   *outage.Reporter
}

// New returns a loop that calls work at every interval. The name, a gerund such as "collecting archives", begins its
// log lines. An interval of zero or less is taken as one second, so that a wrong setting does not cause a busy loop.
func New(name string, interval time.Duration, work func(context.Context) error, log *zap.Logger) *Loop {
	l := &Loop{
		work: work,
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
		outage: outage.New(log, zap.WarnLevel, name+" failed; it is retried at every interval", name+" works again"),
	}
	l.interval.Store(int64(positive(interval)))
	return l
}

// Interval returns the current interval.
func (l *Loop) Interval() time.Duration { return time.Duration(l.interval.Load()) }

// SetInterval changes the interval immediately: the wait in progress starts over with the new length. Setting the
// current interval again changes nothing.
func (l *Loop) SetInterval(d time.Duration) {
	d = positive(d)
	if l.interval.Swap(int64(d)) != int64(d) {
		signal(l.changed)
	}
}

// Wake makes the next call happen now. Several wake-ups before that call count as one.
func (l *Loop) Wake() { signal(l.wake) }

// Pause waits for d, and reports false when ctx ended first.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// Run calls work at every interval until ctx ends, the first time after one interval. It returns after the call in
// progress has returned.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(l.Interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
			timer.Reset(l.Interval())
			continue
		case <-l.wake:
		case <-timer.C:
		}
		err := guard.Call(guard.Component, func() error { return l.work(ctx) })
		l.outage.Report(ctx, err, zap.Duration(logkey.Interval, l.Interval()))
		timer.Reset(l.Interval())
	}
}

// RunNow is [Loop.Run], but makes the first call immediately. It returns nil.
func (l *Loop) RunNow(ctx context.Context) error {
	l.Wake()
	l.Run(ctx)
	return nil
}

// signal sends without blocking. A signal that is already pending stands for all.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// positive replaces an interval that would make the loop spin.
func positive(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}
