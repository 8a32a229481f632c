package server

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// reserve takes a port if nothing has it, and keeps it as long as this process lives. A socket that
// is bound and does not listen holds it. While another socket that was bound without SO_REUSEADDR
// asks for the same port it is refused; a server, which sets that, is not.
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
