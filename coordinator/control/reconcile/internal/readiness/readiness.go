// Package readiness detects the first answer of the application in a newly started container. Until then, it detects
// which ports listen instead of the configured one.
//
// It owns the probes of one container until the first answer, their pace, and the decision that the application uses
// another port. It must not know the consequences, and must not probe a container that has answered.
package readiness

import (
	"context"
	"reflect"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The pace of the probes of one container. The times are measured from the first probe.
const (
	// probeMin and probeMax bound the pause between two probes, which is a tenth of the time since the first probe.
	probeMin = 25 * time.Millisecond
	probeMax = 5 * time.Second
	// readyAfter is when a container without a health check is first probed. This probe can wait, because the gateway
	// sends one of its own as soon as a user opens the workspace.
	readyAfter = time.Second
	// elsewhereAfter is the time from which it matters that other ports listen but the configured one does not.
	// insteadAfter is the time from which one of these ports may count as the application's. silentAfter is the time
	// from which it matters that nothing answers. Before these times, the application may still be starting and opening
	// its ports one after the other.
	elsewhereAfter = 5 * time.Second
	insteadAfter   = 10 * time.Second
	silentAfter    = 30 * time.Second
	// probeInstead is probeMax while another port is used.
	probeInstead = time.Minute
	// lookMin and lookMax bound the pause between two looks at the listening ports.
	lookMin = 5 * time.Second
	lookMax = time.Minute
	// lookLimit bounds one look, and dialLimit one connection to a port.
	lookLimit = 10 * time.Second
	dialLimit = time.Second
)

// Prober probes containers.
type Prober struct {
	// Probe reports whether the application at an endpoint, which serves below basePath, gives a good answer.
	Probe func(ctx context.Context, endpoint, basePath string) bool
	// Stats returns the ports that listen in a workspace's container, and the ports that its image declares.
	Stats func(ctx context.Context, id workspace.ID) (backend.Stats, error)
	// OnePort is that of [backend.Backend].
	OnePort bool
}

// Watch probes one container until it answers, or until Cancel.
type Watch struct {
	Prober
	// Cancel ends it.
	Cancel context.CancelFunc

	id        workspace.ID
	container workspace.Container
	known     int // the port at which an earlier container has answered instead; 0 for none
	changed   func()

	mu    sync.Mutex // guards what follows
	found workspace.Readiness
}

// New returns the watch of a workspace's running container, which has an endpoint. [Watch.Run] probes it until ctx
// ends. known is the other port at which an earlier container of the same image answered, or 0. The watch calls
// changed, which must not block, after each relevant discovery.
func (p Prober) New(ctx context.Context, id workspace.ID, c workspace.Container, known int, changed func()) (*Watch, context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	if p.OnePort {
		known = 0
	}
	return &Watch{Prober: p, Cancel: cancel, id: id, container: c, known: known, changed: changed}, ctx
}

// Of reports whether it is the watch of that container.
func (w *Watch) Of(c workspace.Container) bool {
	return w.container.Endpoint == c.Endpoint && w.container.StartedAt.Equal(c.StartedAt)
}

// Found returns the discoveries so far.
func (w *Watch) Found() workspace.Readiness {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.found
}

// set records a discovery.
func (w *Watch) set(r workspace.Readiness) {
	w.mu.Lock()
	same := reflect.DeepEqual(w.found, r)
	w.found = r
	w.mu.Unlock()
	if !same {
		w.changed()
	}
}

// Run probes the container until it has answered at its endpoint. Each time it tries the endpoint first, even after
// another port was found.
func (w *Watch) Run(ctx context.Context) {
	defer w.Cancel()
	began := time.Now()
	var looked time.Time
	if w.container.Ready && w.known == 0 && !periodic.Pause(ctx, readyAfter) {
		return
	}
	for ctx.Err() == nil {
		if w.Probe(ctx, w.container.Endpoint, w.container.BasePath) {
			w.set(workspace.Readiness{Answered: true})
			return
		}
		age, limit := time.Since(began), probeMax
		switch {
		case w.Found().Instead != 0:
			limit = probeInstead
		case w.known != 0 && w.answersAt(ctx, w.known):
			w.set(workspace.Readiness{Instead: w.known})
		case age >= elsewhereAfter && time.Since(looked) >= min(max(age/5, lookMin), lookMax):
			r := w.look(ctx, age)
			if ctx.Err() != nil {
				return
			}
			looked = time.Now()
			w.set(r)
		}
		periodic.Pause(ctx, min(max(age/10, probeMin), limit))
	}
}
