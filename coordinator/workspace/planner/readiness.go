package planner

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// readiness adds the results of the controller's own probe to the container (SPEC 2). An application that has answered
// is ready, even if its health check does not say so yet. An application that answers at another port is reached at
// that port until it answers at its own.
func (p *planner) readiness() {
	k, r, found := p.o.Container, p.o.Readiness, &p.next.HomeCtx.Found
	if k == nil || !k.Running || k.Endpoint == "" {
		return
	}
	c := *k
	p.o.Container = &c
	switch {
	case r == nil:
	case r.Instead != 0 && !c.StartedAt.IsZero() && !(found.In(c) && found.Port == r.Instead):
		*found = workspace.FoundPort{Port: r.Instead, Started: c.StartedAt.UTC().Round(0), Image: p.o.Image, Configured: p.o.Port}
	case r.Answered, r.Silence != nil && !found.In(c):
		*found = workspace.FoundPort{} // the configured port is the right one, or the found one is not any more
	}
	if found.In(c) {
		if host, _, err := net.SplitHostPort(c.Endpoint); err == nil {
			c.Endpoint = net.JoinHostPort(host, strconv.Itoa(found.Port))
		}
	}
	switch {
	case r == nil:
	case !r.Answered && r.Instead == 0 || c.Pending != nil:
	case c.Health == workspace.HealthStarting, c.Health == workspace.HealthUnhealthy && p.was.Phase != workspace.PhaseRunning:
		c.Health, c.Ready = "", true
	}
}

// holdBack keeps users out of a container that its backend must check first. A container that people may
// already be using is left alone.
func (p *planner) holdBack() {
	if k := p.o.Container; k != nil && k.Running && k.StartAgain && p.was.Phase != workspace.PhaseRunning {
		c := *k
		c.Ready, c.Health = false, workspace.HealthStarting
		p.o.Container = &c
	}
}

// describeSilence records that nothing answers at the port of a running container, and which ports listen.
// While the container is frozen there can be no news.
func (p *planner) describeSilence() {
	k, r, was := p.o.Container, p.o.Readiness, p.was.Waiting
	silent := was != nil && was.Reason == workspace.WaitNotAnswering
	switch {
	case k == nil || !k.Running || p.waiting != nil:
	case r != nil && r.Silence != nil:
		s := r.Silence
		p.wait(workspace.WaitNotAnswering, silenceMessage(*s))
		p.waiting.Port, p.waiting.Ports, p.waiting.LocalPorts = s.Port, s.Ports, s.Local
	case silent && (r == nil && p.frozen() || r != nil && !r.Answered && r.Instead == 0):
		p.keepWaiting()
	}
}

// silenceMessage describes, for administrators, a container whose application does not answer.
func silenceMessage(s workspace.Silence) string {
	switch {
	case slices.Contains(s.Ports, s.Port):
		return fmt.Sprintf("something listens on port %d of the container, and gives no good answer to HTTP", s.Port)
	case len(s.Ports) > 0:
		return fmt.Sprintf("nothing listens on port %d of the container; what listens is %s", s.Port, list(s.Ports))
	case len(s.Local) > 0:
		return fmt.Sprintf("nothing that others reach listens in the container; on its loopback address alone listens %s", list(s.Local))
	}
	return fmt.Sprintf("nothing answers on port %d of the container", s.Port)
}

// list names ports.
func list(ports []int) string {
	texts := make([]string, len(ports))
	for i, port := range ports {
		texts[i] = strconv.Itoa(port)
	}
	return strings.Join(texts, ", ")
}
