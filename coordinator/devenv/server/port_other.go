//go:build !linux

package server

import (
	"net"
	"strconv"
)

// reserve only checks that nothing listens at the port: another process may be quicker than the intended server.
func reserve(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
