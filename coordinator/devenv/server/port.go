package server

import (
	"fmt"
	"math/rand/v2"
)

// The ports from which [FreePort] chooses. If a listener or a connection asks for any port, the kernel gives it none of
// these, because net.ipv4.ip_local_port_range begins above them. A cluster gives none of them to its services. So no
// other program takes such a port by chance before the server listens, or while the server restarts.
const (
	firstPort  = 20_000
	lastPort   = 29_999
	portsTried = 100
)

// FreePort returns a port of the loopback interface on which nothing listens. Until this process ends, no other
// caller gets it, as far as the system can guarantee that (see reserve).
func FreePort() (int, error) {
	var err error
	for range portsTried {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if err = reserve(port); err == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("looking for a free port: %w", err)
}
