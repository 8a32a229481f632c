// Package periodic runs one piece of work over and over: the TTL runner, the
// collector of archives and the activity buffer are such pieces. An error skips
// that round and nothing else, and a fault that lasts is said once, not once per
// round (SPEC 5).
package periodic

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Loop calls a function at an interval that can be changed while it runs.
type Loop struct {
	name     string
	work     func(context.Context) error
	log      *zap.Logger
	interval atomic.Int64
	wake     chan struct{}
	changed  chan struct{}
	failing  bool
}

// New returns a loop that calls work every interval. The name stands in front of
// what it logs. An interval of zero or less means one second: a wrong setting
// must not turn into a loop that spins.
func New(name string, interval time.Duration, work func(context.Context) error, log *zap.Logger) *Loop {
	l := &Loop{
		name: name, work: work, log: log,
		wake: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
	l.interval.Store(int64(positive(interval)))
	return l
}

// Interval returns the present interval.
func (l *Loop) Interval() time.Duration { return time.Duration(l.interval.Load()) }

// SetInterval changes the interval at once: the wait in progress starts over
// with the new length. Setting the present interval again changes nothing.
func (l *Loop) SetInterval(d time.Duration) {
	d = positive(d)
	if l.interval.Swap(int64(d)) != int64(d) {
		signal(l.changed)
	}
}

// Wake makes the next round come now. Several calls before it are one.
func (l *Loop) Wake() { signal(l.wake) }

// Run works every interval, the first time after one interval, until ctx ends.
// It returns when the round in progress has returned.
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
		l.report(ctx, l.work(ctx))
		timer.Reset(l.Interval())
	}
}

// report logs the first error of a series and the end of the series. What fails
// because ctx has ended is not a fault.
func (l *Loop) report(ctx context.Context, err error) {
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil && !l.failing:
		l.failing = true
		l.log.Error(l.name+" failed; it is tried again", zap.Error(err), zap.Duration("interval", l.Interval()))
	case err != nil:
		l.log.Debug(l.name+" still fails", zap.Error(err))
	case l.failing:
		l.failing = false
		l.log.Info(l.name + " works again")
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func positive(d time.Duration) time.Duration {
	if d <= 0 {
		return time.Second
	}
	return d
}
