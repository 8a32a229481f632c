// Package guard keeps a panic where it happened. One in a goroutine would end the whole process, and
// with it every workspace's connections; the next leader would meet the same row (SPEC 5, Failures).
//
// It owns how a panic becomes an error, how often that has happened, and the pauses after which a
// component is started again. What follows for a workspace is its caller's business. It cannot help
// against what Go does not let anybody recover from, such as concurrent writes to a map.
package guard

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/logkey"
)

// Scope is what a fault of the program is confined to.
type Scope int

// The scopes, in the order of [Scopes].
const (
	// Workspace: one workspace stays as it is. Its row could not be read, or a step for it panicked.
	Workspace Scope = iota
	// Component: a component stops and is started again.
	Component
	// Task: one request, call or observation fails.
	Task
)

// Scopes are the names of the scopes, as metrics and logs have them.
var Scopes = [...]string{"workspace", "component", "task"}

// counts are those of the process: a panic is the program's, not that of one of its coordinators.
var counts [len(Scopes)]atomic.Int64

// Count counts a fault that is no panic, such as a row that cannot be read.
func Count(s Scope) { counts[s].Add(1) }

// Counted returns how many faults of a scope there were in this process.
func Counted(s Scope) int64 { return counts[s].Load() }

// PanicError is a panic that was recovered.
type PanicError struct {
	// Value is what panic was called with, and Stack where.
	Value any
	Stack string
}

// Error does not have the stack, which belongs in the log alone.
func (e *PanicError) Error() string { return fmt.Sprintf("the program panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Panicked reports whether err is, or wraps, a panic.
func Panicked(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// Stack is the field of a log line with the stack of a panic, and no field for another error.
func Stack(err error) zap.Field {
	var p *PanicError
	if !errors.As(err, &p) {
		return zap.Skip()
	}
	return zap.String(logkey.Stack, p.Stack)
}

// Call calls f and returns its error. A panic in it is counted and becomes a [*PanicError], which the caller
// logs with [Stack]. It does not see those of goroutines that f starts: each needs a Call of its own.
func Call(s Scope, f func() error) error {
	err := Recover(f)
	if Panicked(err) {
		Count(s)
	}
	return err
}

// Recover is [Call] for a caller that counts the fault itself.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return f()
}

// logger is that of the process.
var logger atomic.Pointer[zap.Logger]

// LogTo sets where [Run] logs, and [Keep] without a logger of its own: what runs in a backend or a leaf has none. It holds for the
// process, as the counts do. Before the first call nothing is logged.
func LogTo(log *zap.Logger) { logger.Store(log) }

func log() *zap.Logger {
	if l := logger.Load(); l != nil {
		return l
	}
	return zap.NewNop()
}

// Run calls f, for a goroutine with no caller that could log a panic. It logs one with what the goroutine was doing, a gerund.
func Run(doing string, f func()) {
	if err := Call(Task, func() error { f(); return nil }); err != nil {
		log().Error("the program panicked; what it was doing has failed", zap.String(logkey.Component, doing),
			zap.Error(err), Stack(err))
	}
}

// The pause before a component that has panicked is started again, at first and at most, ±25 %. One that
// has run for calm without a panic begins with the first pause again.
const (
	pauseMin = time.Second
	pauseMax = time.Minute
	calm     = 5 * time.Minute
)

// Limit is how many panics in a row end [Keep]; 0 is no limit.
type Limit int

// Keep runs a component until it returns, and starts it again after a panic in it, when the pause is over. It
// returns the component's error, or nil when ctx ends during a pause. After so many panics in a row as the limit allows it returns
// the last one, which its caller logs. A logger that is nil stands for the process's: see [LogTo].
// The context that run gets ends with each run, so that nothing of one remains when the next one starts.
func Keep(ctx context.Context, to *zap.Logger, component string, limit Limit, run func(context.Context) error) error {
	pauses := backoff.ExponentialBackOff{
		InitialInterval: pauseMin, MaxInterval: pauseMax, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for inRow := Limit(1); ; inRow++ {
		began := time.Now()
		err := Call(Component, func() error {
			within, cancel := context.WithCancel(ctx)
			defer cancel()
			return run(within)
		})
		if !Panicked(err) {
			return err
		}
		if time.Since(began) >= calm {
			inRow = 1
			pauses.Reset()
		}
		if inRow == limit {
			return err
		}
		if to == nil {
			to = log()
		}
		pause := pauses.NextBackOff()
		to.Error("a component panicked; it is started again", zap.String(logkey.Component, component),
			zap.Duration(logkey.Interval, pause), zap.Error(err), Stack(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Go runs f in the group, with a panic as its error. The group itself would panic in its Wait.
func Go(g *errgroup.Group, f func() error) {
	g.Go(func() error { return Call(Task, f) })
}
