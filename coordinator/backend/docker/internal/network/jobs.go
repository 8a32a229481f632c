package network

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"

	"github.com/codehub/gateway/storagejob/contract"
)

// jobRules returns the rules for the current network of jobs, and its id. Jobs may reach only the object store. found
// is false if the store's name cannot be resolved now. The rules are then applied without the store, so that those of
// workspaces need not wait; until its name can be resolved, jobs cannot reach the store.
func (g *Guard) jobRules(ctx context.Context) (id string, rules *contract.JobRules, found bool, err error) {
	id, name, err := g.Jobs.Interface(ctx)
	if err != nil {
		return "", nil, false, err
	}
	r, err := storeRules(ctx, g.store, net.DefaultResolver.LookupNetIP)
	if ctx.Err() != nil {
		return "", nil, false, ctx.Err()
	}
	r.Bridge = name
	return id, &r, err == nil, nil
}

// carrierGrade are addresses inside providers' networks: neither on the internet nor private.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// storeRules returns the rules that allow the store. If the store is given by address, they allow that address; if by
// name, they allow the private addresses that the name has now. Public addresses behind a name may change while jobs
// run: those of Amazon's store do so every few seconds. So for public addresses, the rules allow the store's port
// everywhere on the internet.
func storeRules(ctx context.Context, store string,
	lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)) (r contract.JobRules, err error) {
	at, err := url.Parse(cmp.Or(store, "https://s3.amazonaws.com"))
	if err != nil {
		return r, fmt.Errorf("the address of the object store: %w", err)
	}
	port := uint16(443)
	if at.Scheme == "http" {
		port = 80
	}
	if text := at.Port(); text != "" {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return r, fmt.Errorf("the port of the object store: %w", err)
		}
		port = uint16(n)
	}
	if ip, err := netip.ParseAddr(at.Hostname()); err == nil {
		r.Store = []contract.Destination{destination(ip, port)}
		return r, nil
	}
	if store == "" {
		r.PublicPort = port
		return r, nil
	}
	found, err := lookup(ctx, "ip", at.Hostname())
	if err != nil {
		return r, fmt.Errorf("looking up the object store for the rules of storage jobs: %w", err)
	}
	for _, ip := range found {
		if ip = ip.Unmap(); ip.IsPrivate() || ip.IsLoopback() || ip.IsLinkLocalUnicast() || carrierGrade.Contains(ip) {
			r.Store = append(r.Store, destination(ip, port))
		} else {
			r.PublicPort = port
		}
	}
	// The order is fixed, so that equal rules are recognised.
	slices.SortFunc(r.Store, func(a, b contract.Destination) int { return a.Prefix.Addr().Compare(b.Prefix.Addr()) })
	r.Store = slices.Compact(r.Store)
	return r, nil
}

func destination(ip netip.Addr, port uint16) contract.Destination {
	ip = ip.Unmap().WithZone("")
	return contract.Destination{Prefix: netip.PrefixFrom(ip, ip.BitLen()), Port: port}
}
