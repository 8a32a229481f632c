// Package egress defines what workspaces can reach besides the internet (SPEC 8). It owns these settings and their
// meaning, for all backends. Each backend decides how to apply the rules, and whether they are in force.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/storagejob/contract"
)

// The values of [Options.Enforce].
const (
	// EnforceAuto applies rules wherever that is possible, and lets no workspace start before they are in force.
	// Workspaces run without rules only if the engine itself reports that it does not support rules, and rules were never
	// in force there.
	EnforceAuto = "auto"
	// EnforceRequire lets no workspace start before the rules are in force.
	EnforceRequire = "require"
	// EnforceOpen applies no rules: workspaces reach what their machine reaches.
	EnforceOpen = "open"
)

// UnableError means that workspaces run without rules, because the engine does not support them.
type UnableError struct{ Err error }

// Error implements error.
func (e *UnableError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *UnableError) Unwrap() error { return e.Err }

// Options define what workspaces can reach besides the internet.
type Options struct {
	// Enforce is one of the Enforce constants. The default is [EnforceOpen].
	Enforce string
	// Allow, Deny and Gateways are lists separated by spaces or commas. Allow lists private destinations that are open,
	// such as 10.0.0.5, 10.0.0.0/8, 10.0.0.5:443 or [fd00::5]:443. Deny lists public addresses or networks that are
	// closed. Gateways lists the addresses of gateways. On Docker, these are addresses in the workspaces' network that
	// belong to gateways instead of workspaces, so that the rules do not apply to them. On Kubernetes, these are addresses
	// outside the cluster from which gateways may reach workspaces.
	Allow, Deny, Gateways string
}

// Lists holds the parsed lists of [Options].
type Lists struct {
	Allow          []contract.Destination
	Deny, Gateways []netip.Prefix
}

// Active reports whether the options require rules.
func (o Options) Active() bool { return o.Enforce == EnforceAuto || o.Enforce == EnforceRequire }

// Validate reports in one error everything that is wrong with the options.
func (o Options) Validate() error {
	_, err := o.Lists()
	switch o.Enforce {
	case "", EnforceAuto, EnforceRequire, EnforceOpen:
	default:
		err = errors.Join(setting.Errorf("egress enforce", "%q must be %s, %s or %s", o.Enforce, EnforceAuto, EnforceRequire,
			EnforceOpen), err)
	}
	return err
}

// Lists parses the lists, and reports in one error everything that is wrong with them.
func (o Options) Lists() (Lists, error) {
	var (
		l    Lists
		errs []error
	)
	for _, text := range fields(o.Allow) {
		d, err := parseDestination(text)
		if err != nil {
			errs = append(errs, setting.Errorf("egress allow", "%w", err))
			continue
		}
		l.Allow = append(l.Allow, d)
	}
	for _, to := range []struct {
		name, text string
		into       *[]netip.Prefix
	}{{"deny", o.Deny, &l.Deny}, {"gateway", o.Gateways, &l.Gateways}} {
		for _, text := range fields(to.text) {
			p, err := parsePrefix(text)
			if err != nil {
				errs = append(errs, setting.Errorf("egress "+to.name, "%w", err))
				continue
			}
			*to.into = append(*to.into, p)
		}
	}
	return l, errors.Join(errs...)
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
}

// parseDestination parses an address or a network, with or without a port. It refuses names, because their addresses
// may change while the rules stay the same.
func parseDestination(text string) (contract.Destination, error) {
	if p, err := parsePrefix(text); err == nil {
		return contract.Destination{Prefix: p}, nil
	}
	wrong := fmt.Errorf("%q is not a destination: write 10.0.0.5, 10.0.0.0/8, 10.0.0.5:443 or [fd00::5]:443, "+
		"and no names", text)
	host, port, ok := cutPort(text)
	n, err := strconv.ParseUint(port, 10, 16)
	p, badHost := parsePrefix(host)
	if !ok || err != nil || n == 0 || badHost != nil {
		return contract.Destination{}, wrong
	}
	return contract.Destination{Prefix: p, Port: uint16(n)}, nil
}

// cutPort splits text at the colon before a port. An IPv6 address is in brackets.
func cutPort(text string) (host, port string, ok bool) {
	if inner, found := strings.CutPrefix(text, "["); found {
		return strings.Cut(inner, "]:")
	}
	return strings.Cut(text, ":")
}

// parsePrefix parses an address or a network.
func parsePrefix(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is neither an address nor a network: write 10.0.0.5 or 10.0.0.0/8", text)
	case p.Masked() != p:
		return netip.Prefix{}, fmt.Errorf("%q has bits behind its length: write %s for the network or %s "+
			"for the address", text, p.Masked(), p.Addr())
	}
	return p, nil
}
