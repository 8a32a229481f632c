// Package guard limits the damage of a panic to the place where it happens. Without it, a panic in a goroutine would
// end the whole process and the connections of every workspace, and the next leader would panic at the same row (SPEC
// 5, Failures).
//
// It turns panics into errors, counts faults, and decides how long to pause before a component is restarted. The caller
// handles the consequences for a workspace. Fatal errors that Go cannot recover from, such as concurrent writes to a
// map, still end the process.
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

// Scope is what a fault of the program affects.
type Scope int

// The scopes, in the order of [Scopes].
const (
	// Workspace: one workspace stays as it is, because its row is unreadable or because a step for the workspace
	// panicked.
	Workspace Scope = iota
	// Component: a component stops and is restarted.
	Component
	// Task: one request, call or observation fails.
	Task
)

// Scopes are the names of the scopes in metrics and logs.
var Scopes = [...]string{"workspace", "component", "task"}

// counts are per process, because a panic is a fault of the program, not of one of its coordinators.
var counts [len(Scopes)]atomic.Int64

// Count counts a fault other than a panic, such as an unreadable row.
func Count(s Scope) { counts[s].Add(1) }

// Counted returns the number of faults of a scope in this process.
func Counted(s Scope) int64 { return counts[s].Load() }

// PanicError is a recovered panic.
type PanicError struct {
	// Value is the argument of panic, and Stack is where it was called.
	Value any
	Stack string
}

// Error leaves the stack out, because only the log may have it.
func (e *PanicError) Error() string { return fmt.Sprintf("the program panicked: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Panicked reports whether err is a panic, or wraps one.
func Panicked(err error) bool {
	var p *PanicError
	return errors.As(err, &p)
}

// Stack returns the log field with the stack of a panic, and no field for any other error.
func Stack(err error) zap.Field {
	var p *PanicError
	if !errors.As(err, &p) {
		return zap.Skip()
	}
	return zap.String(logkey.Stack, p.Stack)
}

// Call calls f and returns its error. If f panics, Call counts it and returns a [*PanicError], which the caller logs
// with [Stack]. Call cannot recover panics in goroutines that f starts: each needs a Call of its own.
func Call(s Scope, f func() error) error {
	err := Recover(f)
	if Panicked(err) {
		Count(s)
	}
	return err
}

// Recover is like [Call], but leaves the counting to the caller.
func Recover(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: string(debug.Stack())}
		}
	}()
	return f()
}

// logger is the logger of the process.
var logger atomic.Pointer[zap.Logger]

// LogTo sets the logger of [Run], and of each [Keep] without a logger of its own, such as in a backend. It applies to
// the whole process, as the counts do. Before the first call nothing is logged.
func LogTo(log *zap.Logger) { logger.Store(log) }

func log() *zap.Logger {
	if l := logger.Load(); l != nil {
		return l
	}
	return zap.NewNop()
}

// Run calls f. It is for goroutines whose caller cannot log a panic: if f panics, Run logs the panic with doing, a
// gerund that says what the goroutine was doing.
func Run(doing string, f func()) {
	if err := Call(Task, func() error { f(); return nil }); err != nil {
		log().Error("the program panicked; what it was doing has failed", zap.String(logkey.Component, doing),
			zap.Error(err), Stack(err))
	}
}

// The first and the longest pause before a panicked component is restarted, ±25 %. If a component has run for the time
// calm without a panic, its next pause is the first one again.
const (
	pauseMin = time.Second
	pauseMax = time.Minute
	calm     = 5 * time.Minute
)

// Limit is how many consecutive panics end [Keep]; 0 means no limit.
type Limit int

// Keep runs a component until it returns, and restarts it after a panic and a pause. It returns the component's error,
// or nil if ctx ends during a pause. At the limit of consecutive panics it returns the last panic, which the caller
// logs. If the logger is nil, Keep uses that of the process; see [LogTo]. The context of a run ends with that run, so
// that nothing of it remains when the next run starts.
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
		to.Error("a component panicked; it is restarted", zap.String(logkey.Component, component),
			zap.Duration(logkey.Interval, pause), zap.Error(err), Stack(err))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// Go runs f in the group and turns a panic in f into its error. The group itself would panic in Wait.
func Go(g *errgroup.Group, f func() error) {
	g.Go(func() error { return Call(Task, f) })
}
