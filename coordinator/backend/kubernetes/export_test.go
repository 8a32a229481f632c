package kubernetes

import (
	"context"
	"net/netip"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// SetReadTimeout sets how long the output of a job may be unreadable.
func SetReadTimeout(b backend.Backend, d time.Duration) { b.Core.(*Backend).outcomes.ReadTimeout = d }

// SetResolve sets how the name of the object store is looked up.
func SetResolve(b backend.Backend, resolve func(ctx context.Context, network, host string) ([]netip.Addr, error)) {
	b.Core.(*Backend).resolve = resolve
}
