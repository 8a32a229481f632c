// Package finalizer releases ended containers. A backend may keep a container in its listings until this program has
// seen the container's end. That delays the container's deletion, for example during the drain of a node.
//
// It owns the timing. The backend decides which containers may be released.
package finalizer

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/outage"
)

const (
	// interval is the time between two attempts to release all ended containers. They are repeated because events may
	// be lost, and because an attempt may have failed.
	interval = time.Minute
	// retry is the pause after the events have ended.
	retry = time.Second
)

// Finalizer releases ended containers. It is safe for concurrent use.
type Finalizer struct {
	backend backend.Backend
	// identity returns nil while the backend is the recorded one (SPEC 2).
	identity func(ctx context.Context) error
	log      *zap.Logger
}

// New returns the finalizer of a backend. For a backend that keeps no ended containers it does nothing. It
// performs no I/O.
func New(b backend.Backend, identity func(ctx context.Context) error, log *zap.Logger) *Finalizer {
	return &Finalizer{backend: b, identity: identity, log: log}
}

// Run releases ended containers, until ctx ends, and returns nil. The leader runs it. It also releases containers that
// belong to no workspace, which the controller ignores.
func (r *Finalizer) Run(ctx context.Context) error {
	if r.backend.RemoveFinalizers == nil {
		<-ctx.Done()
		return nil
	}
	report := outage.New(r.log, zapcore.WarnLevel,
		"containers that have ended cannot be released; their deletion waits",
		"containers that have ended are released again")
	for ctx.Err() == nil {
		r.follow(ctx, report)
		periodic.Pause(ctx, retry)
	}
	return nil
}

// follow runs until the stream of events ends. It releases all ended containers immediately and at every interval, and
// a single container when an event reports it.
func (r *Finalizer) follow(ctx context.Context, report *outage.Reporter) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := r.backend.Events(ctx)
	report.Report(ctx, r.backend.RemoveFinalizers(ctx, r.identity))
	if err != nil {
		return // the controller reports it
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case id, open := <-events:
			if !open {
				return
			}
			// The result for this container says nothing about the others.
			if err := r.backend.RemoveFinalizers(ctx, r.identity, id); err != nil {
				report.Report(ctx, err)
			}
		case <-tick.C:
			report.Report(ctx, r.backend.RemoveFinalizers(ctx, r.identity))
		}
	}
}
