package server

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// reserve takes a free port and keeps it as long as this process lives. For this it binds a socket that does not
// listen. A socket without SO_REUSEADDR cannot be bound to the same port. A server's socket can, because servers set
// that option.
func reserve(port int) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	err = unix.Bind(socket, &unix.SockaddrInet4{Port: port, Addr: netip.MustParseAddr(Loopback).As4()})
	if err == nil {
		err = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err != nil {
		_ = unix.Close(socket)
	}
	return err
}
