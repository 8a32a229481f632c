package server

import (
	"fmt"
	"net"
	"testing"
)

// FreePort never returns the same port twice. The server for which a port was chosen can listen there, even after a
// restart.
func TestAPortIsGivenOnce(t *testing.T) {
	port, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if reserve(port) == nil {
			t.Error("it is given again before a server listens")
		}
		l, err := net.Listen("tcp", fmt.Sprintf("%s:%d", Loopback, port))
		if err != nil {
			t.Fatal(err)
		}
		if reserve(port) == nil {
			t.Error("it is given although a server listens")
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		t.Fatal("a server of all addresses:", err)
	}
	if err := all.Close(); err != nil {
		t.Fatal(err)
	}
}
