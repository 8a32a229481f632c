package network

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// unableFor is how long workspaces start without another attempt, on an engine that cannot
	// have the rules.
	unableFor = time.Minute
	// failedFor is how long a failure is the answer to later calls too: many may wait.
	failedFor = 5 * time.Second
)

// Guard knows whether the rules stand. It is safe for concurrent use.
type Guard struct {
	// Workspaces is the network of workspaces, Jobs that of storage jobs: nil if they are on one
	// that the options name.
	Workspaces, Jobs *Network

	opts   egress.Options
	store  string // the URL of the object store as jobs reach it; empty for Amazon's
	helper runner
	// installation has a table of its own.
	installation string
	decision     decision
	now          func() time.Time

	making chan struct{} // held while a helper runs

	mu      sync.Mutex // guards what follows
	epoch   uint64     // of the engine when the rules were made; 0: not yet
	network string     // the network that they were made for
	forJobs string     // and that of the storage jobs, if the store was found
	failed  time.Time  // when they could not be made, and why
	cause   error
	decided uint64 // the epoch in which the decision was remembered
}

// New returns the guard of an installation's workspaces, and of its storage jobs if they have a
// network of their own. It performs no I/O.
func New(api *engine.Client, o spec.Options) *Guard {
	return &Guard{
		Workspaces: workspaces(api, o), Jobs: jobs(api, o), opts: o.Egress, store: o.Store, now: time.Now,
		making: make(chan struct{}, 1), installation: o.Installation, decision: newDecision(api, o),
		helper: runner{image.Helper{API: api, Image: o.JobImage, Labels: o.HelperLabels(spec.KindEgress), All: o.AllHelperLabels()}},
	}
}

// BeforeStart returns nil when a workspace or a storage job may start on the network with that
// id. Then the rules stand as far as this process knows, or need not stand, by the settings or
// because the engine cannot have them. It performs no I/O unless nothing is known yet, or the
// engine may have restarted since.
//
// While they do not stand and must, the error is a [workspace.PendingError], a [backend.MissingImageError],
// or Unreachable.
func (g *Guard) BeforeStart(ctx context.Context, network string) error {
	if !g.opts.Active() || g.known(network) {
		return nil
	}
	err := g.failedLately()
	if err == nil {
		_, err = g.make(ctx, network)
	}
	if err != nil {
		err = g.follows(ctx, err)
	}
	return err
}

// Keep makes the rules again, whatever is known, and reports whether they stood. Only where
// they are open by choice it does nothing. Where workspaces start without them, because the
// engine cannot have them, the error is an [egress.UnableError].
func (g *Guard) Keep(ctx context.Context) (stood bool, err error) {
	if !g.opts.Active() {
		return true, nil
	}
	if stood, err = g.make(ctx, ""); err == nil {
		return stood, nil
	}
	if closed := g.follows(ctx, err); closed != nil {
		return false, closed
	}
	return false, &egress.UnableError{Err: err}
}

// Status reports, without changing anything, whether the rules stand, and with which name
// servers.
func (g *Guard) Status(ctx context.Context) (contract.EgressResult, error) {
	_, _, rules, err := g.rules(ctx)
	if err != nil {
		return contract.EgressResult{}, err
	}
	return g.helper.onHost(ctx, contract.EgressStatus, rules)
}

// Probe returns those of the addresses, as host:port, to which a container on that network
// can connect.
func (g *Guard) Probe(ctx context.Context, network string, addresses []string) ([]string, error) {
	return g.helper.probe(ctx, network, addresses)
}

// Remove removes the rules, and what is remembered of the engine. A process that runs makes them
// again.
func (g *Guard) Remove(ctx context.Context) error {
	_, err := g.helper.onHost(ctx, contract.EgressRemove, contract.EgressRules{Table: tableName(g.installation)})
	if err == nil || errors.Is(err, contract.ErrUnable) {
		err = errors.Join(err, g.decision.forget(ctx))
	}
	return err
}

// Decided reports whether the rules have stood on this engine, so that nothing starts there
// without them.
func (g *Guard) Decided(ctx context.Context) (bool, error) { return g.decision.made(ctx) }

// known reports whether the rules for that network stood when they were last looked at, and
// the engine has answered ever since.
func (g *Guard) known(network string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch != 0 && (g.network == network || g.forJobs == network) && g.epoch == g.helper.API.Epoch()
}

// failedLately returns why the rules could not be made, if that is so short a time ago that the
// next attempt would end alike.
func (g *Guard) failedLately() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	limit := failedFor
	if errors.Is(g.cause, contract.ErrUnable) {
		limit = unableFor
	}
	if g.cause == nil || g.now().Sub(g.failed) >= limit {
		return nil
	}
	return g.cause
}

// make makes the rules. Callers take turns; one that needs them for a network, and has waited
// for another, takes its outcome.
func (g *Guard) make(ctx context.Context, network string) (stood bool, err error) {
	select {
	case g.making <- struct{}{}:
		defer func() { <-g.making }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if network != "" && g.known(network) {
		return true, nil
	}
	id, jobs, rules, err := g.rules(ctx)
	var result contract.EgressResult
	var epoch uint64
	if err == nil {
		// Before, because a connection that is lost meanwhile must count as one.
		epoch = g.helper.API.Epoch()
		result, err = g.helper.onHost(ctx, contract.EgressApply, rules)
	}
	if err == nil && g.opts.Enforce == egress.EnforceAuto && !g.remembers(epoch) {
		err = g.decision.make(ctx)
	}
	if ctx.Err() != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause, g.failed, g.epoch, g.network, g.forJobs = err, g.now(), epoch, id, jobs
	switch {
	case err == nil:
		g.decided = epoch
	case explained(err):
		g.epoch, g.cause = 0, nil // the next attempt may end otherwise
	default:
		g.epoch = 0
	}
	return result.Stood, err
}

// remembers reports whether the engine that has answered since that epoch has the decision.
func (g *Guard) remembers(epoch uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decided == epoch
}

// rules are the rules for the networks as they are now, and the ids of those that they are
// complete for.
func (g *Guard) rules(ctx context.Context) (id, jobs string, rules contract.EgressRules, err error) {
	id, name, err := g.Workspaces.Interface(ctx)
	if err != nil {
		return "", "", rules, err
	}
	rules, err = workspaceRules(g.opts, g.installation, name)
	if err == nil && g.Jobs != nil {
		var found bool
		if jobs, rules.Jobs, found, err = g.jobRules(ctx); !found {
			jobs = "" // look again before the next job
		}
	}
	return id, jobs, rules, err
}
