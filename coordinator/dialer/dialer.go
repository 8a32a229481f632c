// Package dialer creates network dialers whose connections fail soon after the peer has disappeared without closing
// them. The operating system's own limits are two hours for an idle connection, and a quarter of an hour for written
// data.
//
// It owns the socket options. It must not know the protocol of a connection: the caller chooses the limits.
package dialer

import (
	"fmt"
	"net"
	"syscall"
	"time"
)

// Limits define how soon a lost peer is noticed. The limits apply to TCP only. A Unix socket is dialed without them,
// because its peer is on the same machine.
type Limits struct {
	// Connect bounds the establishment of a connection.
	Connect time.Duration
	// Idle is how long a connection may be silent before it is probed, and Interval is the time between two probes.
	// After Count unanswered probes the connection is closed. Zero means Go's default: 15 s, 15 s, 9.
	Idle, Interval time.Duration
	Count          int
	// Unacknowledged bounds how long written data may wait for an acknowledgement (TCP_USER_TIMEOUT). Probes are not
	// sent while data is waiting, so without this limit a query on a cut connection hangs. Zero means no limit. It
	// works on Linux and is ignored elsewhere.
	Unacknowledged time.Duration
}

// New returns a dialer that sets the limits on every connection it makes.
func New(l Limits) *net.Dialer {
	return &net.Dialer{
		Timeout:         l.Connect,
		KeepAliveConfig: l.keepAlive(),
		Control:         limitUnacknowledged(l.Unacknowledged),
	}
}

// Socket is the part of a connection that [Limits.Set] needs. Every [net.TCPConn] has it.
type Socket interface {
	SetKeepAliveConfig(net.KeepAliveConfig) error
	syscall.Conn
}

// Set sets the limits, except Connect, on a connection that is already open. The limits also count silence that began,
// and unacknowledged data that was written, before the call.
func (l Limits) Set(conn Socket) error {
	if err := conn.SetKeepAliveConfig(l.keepAlive()); err != nil {
		return fmt.Errorf("setting the probes of a silent connection: %w", err)
	}
	limit := limitUnacknowledged(l.Unacknowledged)
	if limit == nil {
		return nil
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return fmt.Errorf("limiting the wait for acknowledgements: %w", err)
	}
	return limit("tcp", "", raw)
}

func (l Limits) keepAlive() net.KeepAliveConfig {
	return net.KeepAliveConfig{Enable: true, Idle: l.Idle, Interval: l.Interval, Count: l.Count}
}
