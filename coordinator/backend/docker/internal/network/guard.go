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
	// unableFor is how long workspaces start without another attempt to apply the rules on an engine that does not support
	// them.
	unableFor = time.Minute
	// failedFor is how long later calls return the same failure without another attempt, because many callers may be
	// waiting.
	failedFor = 5 * time.Second
)

// Guard applies the egress rules and knows whether they are in force. It is safe for concurrent use.
type Guard struct {
	// Workspaces is the network of workspaces, and Jobs that of storage jobs. Each is nil if the options
	// name the network.
	Workspaces, Jobs *Network

	opts         egress.Options
	store        string // the object store's URL as storage jobs use it; empty for Amazon's
	helper       runner
	installation string // each one has its own table of rules
	decision     decision
	now          func() time.Time

	making chan struct{} // held while a helper runs

	mu      sync.Mutex // guards the fields below
	applied uint64     // [engine.Client.Reconnects] when the rules were applied; 0: not applied
	network string     // the id of the network that they cover
	forJobs string     // and of the network of storage jobs, if the store was found
	failed  time.Time  // when applying them failed
	cause   error      // why
	decided uint64     // Reconnects when the decision was recorded
}

// New returns the guard of an installation's workspaces, and of its storage jobs if they have their own
// network. It performs no I/O.
func New(api *engine.Client, o spec.Options) *Guard {
	return &Guard{
		Workspaces: workspaces(api, o), Jobs: jobs(api, o), opts: o.Egress, store: o.Store, now: time.Now,
		making: make(chan struct{}, 1), installation: o.Installation, decision: newDecision(api, o),
		helper: runner{image.Helper{API: api, Image: o.JobImage, Labels: o.HelperLabels(spec.KindEgress), All: o.AllHelperLabels()}},
	}
}

// BeforeStart returns nil if a workspace or a storage job may start on the network with that id. Then, as far as this
// process knows, the rules are in force, or they are not required: because of the settings, or because the engine does
// not support them. BeforeStart performs I/O only if this process has not applied the rules yet, or if the engine may
// have restarted since.
//
// If the rules are required and not in force, the error is a [workspace.PendingError], a [backend.MissingImageError],
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

// Keep applies the rules again in any case, and reports whether they were in force before. It does nothing if
// the settings leave egress open. If the engine does not support the rules and workspaces start without them,
// the error is an [egress.UnableError].
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

// Status reports whether the rules are in force, and with which name servers. It changes nothing.
func (g *Guard) Status(ctx context.Context) (contract.EgressResult, error) {
	_, _, rules, err := g.rules(ctx)
	if err != nil {
		return contract.EgressResult{}, err
	}
	return g.helper.onHost(ctx, contract.EgressStatus, rules)
}

// Probe returns the addresses (host:port) to which a container on that network can connect.
func (g *Guard) Probe(ctx context.Context, network string, addresses []string) ([]string, error) {
	return g.helper.probe(ctx, network, addresses)
}

// Remove removes the rules, and the recorded decision about the engine. A running process applies the rules
// again.
func (g *Guard) Remove(ctx context.Context) error {
	_, err := g.helper.onHost(ctx, contract.EgressRemove, contract.EgressRules{Table: tableName(g.installation)})
	if err == nil || errors.Is(err, contract.ErrUnable) {
		err = errors.Join(err, g.decision.forget(ctx))
	}
	return err
}

// Decided reports whether the rules have ever been in force on this engine, so that nothing starts there
// without them.
func (g *Guard) Decided(ctx context.Context) (bool, error) { return g.decision.made(ctx) }

// known reports whether the rules for that network were in force when last applied, and the
// connection to the engine has not been lost since.
func (g *Guard) known(network string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.applied != 0 && (g.network == network || g.forJobs == network) && g.applied == g.helper.API.Reconnects()
}

// failedLately returns the last failure to apply the rules if it is so recent that another attempt would fail, too.
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

// make applies the rules. Callers take turns. A caller that has waited may find that the previous caller has applied
// the rules to its network, too.
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
	var reconnects uint64
	if err == nil {
		// Read the number of reconnections first: if the connection is lost while the rules are applied, that must be
		// noticed.
		reconnects = g.helper.API.Reconnects()
		result, err = g.helper.onHost(ctx, contract.EgressApply, rules)
	}
	if err == nil && g.opts.Enforce == egress.EnforceAuto && !g.remembers(reconnects) {
		err = g.decision.make(ctx)
	}
	if ctx.Err() != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause, g.failed, g.applied, g.network, g.forJobs = err, g.now(), reconnects, id, jobs
	switch {
	case err == nil:
		g.decided = reconnects
	case explained(err):
		g.applied, g.cause = 0, nil // the next attempt may succeed
	default:
		g.applied = 0
	}
	return result.Stood, err
}

// remembers reports whether the decision was recorded on the engine, and the connection has not been lost since.
func (g *Guard) remembers(reconnects uint64) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.decided == reconnects
}

// rules returns the rules for the current networks, and the ids of the networks that they cover completely.
func (g *Guard) rules(ctx context.Context) (id, jobs string, rules contract.EgressRules, err error) {
	id, name, err := g.Workspaces.Interface(ctx)
	if err != nil {
		return "", "", rules, err
	}
	rules, err = workspaceRules(g.opts, g.installation, name)
	if err == nil && g.Jobs != nil {
		var found bool
		if jobs, rules.Jobs, found, err = g.jobRules(ctx); !found {
			jobs = "" // try again before the next job
		}
	}
	return id, jobs, rules, err
}
