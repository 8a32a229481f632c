// Package egress creates the packet filter rules that define what workspaces can reach (SPEC 8), in the network
// namespace in which it runs, that of the engine's host. It needs CAP_NET_ADMIN and nothing else.
//
// It owns one nftables table, whose name the caller gives, and must not touch any other. A packet that this table
// accepts still passes Docker's own rules and the host's. A packet that this table refuses is refused. The package must
// not know what a workspace is.
package egress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
)

// probeLimit bounds one connection attempt of a probe.
const probeLimit = 3 * time.Second

// probeEvery is the shortest time between two repeated probes.
const probeEvery = time.Second

// Run executes the task in args, which follow [contract.Egress], prints the result to stdout, and returns the exit
// code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) int {
	result, err := run(ctx, args, getenv)
	if err != nil {
		result.Error, result.Unable = err.Error(), errors.Is(err, contract.ErrUnable)
	}
	return contract.End(stdout, result, err)
}

func run(ctx context.Context, args []string, getenv func(string) string) (contract.EgressResult, error) {
	if len(args) > 0 && args[0] == contract.EgressProbe {
		settle, addresses, err := probed(args[1:])
		if err != nil {
			return contract.EgressResult{}, err
		}
		return contract.EgressResult{Reached: settled(ctx, settle, addresses)}, nil
	}
	var rules contract.EgressRules
	if err := json.Unmarshal([]byte(getenv(contract.EnvEgressRules)), &rules); err != nil {
		return contract.EgressResult{}, fmt.Errorf("%w: %s: %w", contract.ErrUsage, contract.EnvEgressRules, err)
	}
	if len(args) != 1 || rules.Table == "" {
		return contract.EgressResult{}, fmt.Errorf("%w: write egress apply, status or remove, and name a table in %s",
			contract.ErrUsage, contract.EnvEgressRules)
	}
	switch args[0] {
	case contract.EgressApply:
		return apply(rules, nameservers("/etc/resolv.conf", contract.ResolvedPath+"/resolv.conf"))
	case contract.EgressStatus:
		return status(rules, nameservers("/etc/resolv.conf", contract.ResolvedPath+"/resolv.conf"))
	case contract.EgressRemove:
		return contract.EgressResult{}, remove(rules.Table)
	}
	return contract.EgressResult{}, fmt.Errorf("%w: egress %q is not known", contract.ErrUsage, args[0])
}

// probed reads the arguments of a probe: how long to repeat it, and the addresses.
func probed(args []string) (settle time.Duration, addresses []string, err error) {
	if len(args) == 0 {
		return 0, nil, fmt.Errorf("%w: write egress probe and addresses", contract.ErrUsage)
	}
	// An address is never a duration: it has a port.
	if settle, err = time.ParseDuration(args[0]); err == nil {
		return settle, args[1:], nil
	}
	return 0, args, nil
}

// settled repeats the probe and returns the result of the first probe that begins after the duration settle.
func settled(ctx context.Context, settle time.Duration, addresses []string) []string {
	end := time.Now().Add(settle)
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		last := !time.Now().Before(end)
		reached := probe(ctx, addresses)
		if last {
			return reached
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return reached
		}
	}
}

// probe tries to connect to all addresses at once, and returns those that answered.
func probe(ctx context.Context, addresses []string) []string {
	var (
		mu      sync.Mutex
		reached []string
		tries   sync.WaitGroup
		dialer  = net.Dialer{Timeout: probeLimit}
	)
	for _, a := range addresses {
		tries.Go(func() {
			c, err := dialer.DialContext(ctx, "tcp", a)
			if err != nil {
				return
			}
			c.Close()
			mu.Lock()
			defer mu.Unlock()
			reached = append(reached, a)
		})
	}
	tries.Wait()
	slices.Sort(reached)
	return reached
}
