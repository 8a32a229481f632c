// Package outage logs an outage once, and its end once. Otherwise, retried work such as a query, a subscription or a
// periodic job would write the same line with every attempt.
//
// It owns when a line is written. The caller chooses level and texts. It must not retry, wait or decide anything: that
// is the caller's loop.
package outage

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
)

// Reporter follows the outcome of something that is tried repeatedly. Its methods are safe for concurrent use.
type Reporter struct {
	log       *zap.Logger
	level     zapcore.Level
	failed    string
	recovered string

	mu       sync.Mutex
	ongoing  bool
	panicked bool      // a panic was logged during this outage
	since    time.Time // of the outage's first failure
}

// New returns a reporter that writes to log: the message failed at the given level when an outage begins, and the
// message recovered at info level when it ends. If recovered is empty, the end is not logged.
func New(log *zap.Logger, level zapcore.Level, failed, recovered string) *Reporter {
	return &Reporter{log: log, level: level, failed: failed, recovered: recovered}
}

// Report reports the outcome of an attempt made under ctx: [Reporter.Recovered] for nil, [Reporter.Failed] for an
// error. It ignores an attempt that failed after ctx had ended, because such a failure says nothing about an outage.
func (r *Reporter) Report(ctx context.Context, err error, fields ...zap.Field) {
	switch {
	case err == nil:
		r.Recovered(fields...)
	case ctx.Err() == nil:
		r.Failed(err, fields...)
	}
}

// Failed records a failed attempt. The first one of an outage is logged with its cause, the others only at debug level.
// The first panic of an outage is logged as an error, with its stack.
func (r *Reporter) Failed(err error, fields ...zap.Field) {
	r.mu.Lock()
	level := zapcore.DebugLevel
	if !r.ongoing {
		r.ongoing, r.since = true, time.Now()
		level = r.level
	}
	if guard.Panicked(err) && !r.panicked {
		r.panicked = true
		level = zapcore.ErrorLevel
	}
	r.mu.Unlock()
	if entry := r.log.Check(level, r.failed); entry != nil {
		entry.Write(append(fields[:len(fields):len(fields)], zap.Error(err), guard.Stack(err))...)
	}
}

// Recovered records a successful attempt. If an outage was in progress, Recovered logs that it has ended, and how long
// it lasted. Otherwise it does nothing.
func (r *Reporter) Recovered(fields ...zap.Field) {
	r.mu.Lock()
	ended, since := r.ongoing, r.since
	r.ongoing, r.panicked = false, false
	r.mu.Unlock()
	if ended && r.recovered != "" {
		r.log.Info(r.recovered, append(fields[:len(fields):len(fields)], zap.Duration(logkey.Outage, time.Since(since)))...)
	}
}
