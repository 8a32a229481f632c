package dialer

import (
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limitUnacknowledged returns a function that sets TCP_USER_TIMEOUT to d, or nil if there is no limit.
func limitUnacknowledged(d time.Duration) func(network, address string, c syscall.RawConn) error {
	if d <= 0 {
		return nil
	}
	milliseconds := int(max(d, time.Millisecond).Milliseconds()) // 0 would mean no limit
	return func(network, _ string, c syscall.RawConn) error {
		if !strings.HasPrefix(network, "tcp") {
			return nil
		}
		var set error
		err := c.Control(func(fd uintptr) {
			set = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, milliseconds)
		})
		if err == nil {
			err = set
		}
		if err != nil {
			return fmt.Errorf("setting TCP_USER_TIMEOUT: %w", err)
		}
		return nil
	}
}
