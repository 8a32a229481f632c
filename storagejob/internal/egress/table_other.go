//go:build !linux

package egress

import (
	"errors"
	"net/netip"

	"github.com/codehub/gateway/storagejob/contract"
)

var errNotLinux = errors.New("the rules exist on Linux only: run this in the engine's container")

func apply(contract.EgressRules, []netip.Addr) (contract.EgressResult, error) {
	return contract.EgressResult{}, errNotLinux
}

func status(contract.EgressRules, []netip.Addr) (contract.EgressResult, error) {
	return contract.EgressResult{}, errNotLinux
}

func remove(string) error { return errNotLinux }
