//go:build !linux

package leader

import (
	"syscall"
	"time"
)

// userTimeout does nothing where the system has no such option: keepalive and
// the trust deadline remain.
func userTimeout(time.Duration) func(network, address string, c syscall.RawConn) error {
	return nil
}
