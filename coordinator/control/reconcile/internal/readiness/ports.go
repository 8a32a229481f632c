package readiness

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxDialled bounds the ports of an image that are tried.
const maxDialled = 16

// look finds out which ports listen in a container that does not answer. age is the time since the probes began.
func (w *Watch) look(ctx context.Context, age time.Duration) (r workspace.Readiness) {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	host, text, _ := net.SplitHostPort(w.container.Endpoint)
	port, _ := strconv.Atoi(text)
	s, err := w.Stats(ctx, w.id)
	listens := s.Ports
	if (err != nil || s.Processes < 0) && !w.OnePort {
		// The image has no shell to ask with. The declared ports can be tried from here.
		listens = listening(ctx, (&net.Dialer{Timeout: dialLimit}).DialContext, host, s.Declared)
	}
	if w.answersInstead(ctx, port, listens, s.Declared, age) {
		return workspace.Readiness{Instead: listens[0]}
	}
	if age >= silentAfter || len(listens) > 0 && !slices.Contains(listens, port) || slices.Contains(s.Local, port) {
		r.Silence = &workspace.Silence{Port: port, Ports: slices.Clone(listens), Local: slices.Clone(s.Local)}
	}
	return r
}

// answersInstead reports whether the application uses another port than the configured one: exactly one port listens,
// the image declares it, and it answers.
func (w *Watch) answersInstead(ctx context.Context, port int, listens, declared []int, age time.Duration) bool {
	if w.OnePort || age < insteadAfter || len(listens) != 1 || listens[0] == port || !slices.Contains(declared, listens[0]) {
		return false
	}
	return w.answersAt(ctx, listens[0])
}

// answersAt probes another port of the container.
func (w *Watch) answersAt(ctx context.Context, port int) bool {
	host, _, _ := net.SplitHostPort(w.container.Endpoint)
	return w.Probe(ctx, at(host, port), w.container.BasePath)
}

// dial opens a connection as [net.Dialer.DialContext] does.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

// listening returns those of the ports that accept a connection. It tries them concurrently, because an attempt takes
// all of its time if its packets are dropped.
func listening(ctx context.Context, dial dial, host string, ports []int) []int {
	ports = ports[:min(len(ports), maxDialled)]
	open := make([]bool, len(ports))
	var wg sync.WaitGroup
	for i, port := range ports {
		wg.Go(func() {
			guard.Run("trying a port", func() {
				if c, err := dial(ctx, "tcp", at(host, port)); err == nil {
					c.Close()
					open[i] = true
				}
			})
		})
	}
	wg.Wait()
	var found []int
	for i, port := range ports {
		if open[i] {
			found = append(found, port)
		}
	}
	return found
}

func at(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }
