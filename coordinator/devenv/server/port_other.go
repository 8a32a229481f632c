//go:build !linux

package server

import (
	"net"
	"strconv"
)

// reserve only looks whether something listens at the port: another process may be quicker
// than the server that is to have it.
func reserve(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort(Loopback, strconv.Itoa(port)))
	if err != nil {
		return err
	}
	return l.Close()
}
