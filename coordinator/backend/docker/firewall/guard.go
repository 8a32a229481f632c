package firewall

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/backend/docker/bridge"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/helper"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/storagejob/contract"
)

// retryAfter is how long [egress.EnforceAuto] lets workspaces start without another attempt after
// one has failed.
const retryAfter = time.Minute

// Guard knows whether the rules stand. It is safe for concurrent use.
type Guard struct {
	opts   egress.Options
	net    *bridge.Network
	jobs   *jobs
	helper runner
	// installation has a table of its own.
	installation string
	now          func() time.Time

	making chan struct{} // held while a helper runs

	mu      sync.Mutex // guards what follows
	epoch   uint64     // of the engine when the rules were made; 0: not yet
	network string     // the network that they were made for
	forJobs string     // and that of the storage jobs, if the store was found
	failed  time.Time  // when they could not be made, and why
	cause   error
}

// New returns the guard of an installation's workspaces on their network, and of its storage jobs
// if they have one of their own. Both may be nil where rules are only removed. It performs no I/O.
func New(api *engine.Client, o spec.Options, net, own *bridge.Network) *Guard {
	g := &Guard{
		opts: o.Egress, net: net, now: time.Now, making: make(chan struct{}, 1), installation: o.Installation,
		helper: runner{helper.Helper{API: api, Image: o.JobImage, Labels: o.HelperLabels(spec.KindEgress)}},
	}
	if own != nil {
		g.jobs = &jobs{own, o.Store}
	}
	return g
}

// BeforeStart returns nil when a workspace or a storage job may start on the network with that id: the rules
// stand as far as this process knows, or need not. It performs no I/O unless nothing is known yet, or the engine may have
// restarted since.
func (g *Guard) BeforeStart(ctx context.Context, network string) error {
	if !g.opts.Active() || g.known(network) {
		return nil
	}
	if g.opts.Enforce == egress.EnforceAuto && g.failedLately() {
		return nil
	}
	_, err := g.make(ctx, network)
	switch {
	case err == nil:
		return nil
	case g.opts.Enforce == egress.EnforceAuto && ctx.Err() == nil:
		return nil // Keep tells of it
	}
	return fmt.Errorf("the setting \"egress enforce\" is require, and the firewall rules for workspaces and storage jobs cannot be made: %w", err)
}

// Keep makes the rules again, whatever is known, and reports whether they stood. Only where
// they are open by choice it does nothing.
func (g *Guard) Keep(ctx context.Context) (stood bool, err error) {
	if !g.opts.Active() {
		return true, nil
	}
	return g.make(ctx, "")
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

// Remove removes the rules. A process that runs makes them again.
func (g *Guard) Remove(ctx context.Context) error {
	_, err := g.helper.onHost(ctx, contract.EgressRemove, contract.EgressRules{Table: tableName(g.installation)})
	return err
}

// known reports whether the rules for that network stood when they were last looked at, and
// the engine has answered ever since.
func (g *Guard) known(network string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.epoch != 0 && (g.network == network || g.forJobs == network) && g.epoch == g.helper.API.Epoch()
}

func (g *Guard) failedLately() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.cause != nil && g.now().Sub(g.failed) < retryAfter
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
	if ctx.Err() != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cause, g.failed, g.epoch, g.network, g.forJobs = err, g.now(), epoch, id, jobs
	if err != nil {
		g.epoch = 0
	}
	return result.Stood, err
}

// rules are the rules for the networks as they are now, and the ids of those that they are
// complete for.
func (g *Guard) rules(ctx context.Context) (id, jobs string, rules contract.EgressRules, err error) {
	id, name, err := g.net.Interface(ctx)
	if err != nil {
		return "", "", rules, err
	}
	rules, err = workspaceRules(g.opts, g.installation, name)
	if err == nil && g.jobs != nil {
		var found bool
		if jobs, rules.Jobs, found, err = g.jobs.rules(ctx); !found {
			jobs = "" // look again before the next job
		}
	}
	return id, jobs, rules, err
}
