package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Lock is the name of the collection in system_locks. The leader's runner and the command that collects both
// hold it, so that only one cycle runs at a time in the installation.
const Lock = postgres.LockGC

// errNotLeading means that another process may be the leader now.
var errNotLeading = errors.New("this process may no longer be the leader; no further archive is deleted")

// errTooLate means that this process was held up between judging archives and deleting them.
var errTooLate = errors.New("too much time has passed since the archives were judged; they are judged again in " +
	"the next cycle")

// ErrNotConfirmed means that more archives would be deleted than the person has confirmed.
var ErrNotConfirmed = errors.New("no archive is deleted: more than what was confirmed")

// Request is a person's request for one cycle.
type Request struct {
	// Unknown also deletes the archives that are otherwise only reported: archives that belong to no workspace, and
	// archives that do not fit their workspace's row. They must be at least as old as the delay. Their number, together
	// with all other due archives, must be at most Confirmed.
	Unknown   bool
	Confirmed int
	// Force runs the cycle in spite of the circuit breaker.
	Force bool
}

// Collect runs one cycle now, on a person's command. The cycle is like the cycles of the leader, but does not belong to
// a term. Collect calls the function each for every archive that was due, with what happened to it. While another
// process collects, the error is a [*postgres.BusyError]. After another error the report shows how far the cycle got.
//
// Show the person the findings of a [DryRun] of the same request first, ask for confirmation, and pass its Report.Due
// as Confirmed.
func Collect(ctx context.Context, opts Options, req Request, each func(Judgement) error) (Report, error) {
	return collect(ctx, &cycle{opts: opts, settings: opts.Settings.orDefault(), request: req, each: each}, nil)
}

// collect runs the cycle while no other process collects.
func collect(ctx context.Context, c *cycle, t *term) (Report, error) {
	exclusive, err := c.opts.Store.TryExclusive(ctx, Lock, c.opts.Holder)
	if err != nil {
		return Report{}, fmt.Errorf("collecting archives: %w", err)
	}
	defer exclusive.End(ctx)
	c.hold = &hold{store: c.opts.Store, exclusive: exclusive, term: t}
	err = c.collect(ctx)
	return c.report, err
}

// term is the leadership under which a cycle runs.
type term struct {
	fence postgres.Fence
	lease func() bool
}

// hold is the right to collect.
type hold struct {
	store     Store
	exclusive *postgres.Exclusive
	term      *term // nil on command
}

// leads reports, without I/O, whether the term's lease still holds.
func (h *hold) leads() bool { return h.term == nil || h.term.lease() }

// check returns nil while no other process collects or leads. A dry cycle, whose hold is nil, may always
// continue.
func (h *hold) check(ctx context.Context) error {
	if h == nil {
		return nil
	}
	if err := h.exclusive.Check(ctx); err != nil {
		return err
	}
	if h.term == nil {
		return nil
	}
	held, err := h.store.Holds(ctx, h.term.fence)
	if err == nil && !(held && h.leads()) {
		err = errNotLeading
	}
	return err
}
