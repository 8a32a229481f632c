//go:build !linux

package dialer

import (
	"syscall"
	"time"
)

// limitUnacknowledged returns nil: other systems have no TCP_USER_TIMEOUT. The
// keepalive probes and the caller's own timeouts remain.
func limitUnacknowledged(time.Duration) func(network, address string, c syscall.RawConn) error {
	return nil
}
