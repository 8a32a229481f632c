//go:build !linux

package store

import "syscall"

// limitUnacknowledged does nothing where TCP_USER_TIMEOUT does not exist;
// keepalive and the liveness check remain.
func limitUnacknowledged(string, string, syscall.RawConn) error { return nil }
