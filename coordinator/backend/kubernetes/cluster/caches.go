package cluster

import (
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Caches hold the objects of one installation. Watches keep them current, so that a listing costs no request. They
// are filled on first use. Their objects are shared and must not be changed. The objects lack the fields that this
// program does not read: see stripPod, stripClaim and stripJob.
type Caches struct {
	Pods   *Cache[*corev1.Pod]
	Claims *Cache[*corev1.PersistentVolumeClaim]
	Jobs   *Cache[*batchv1.Job]

	client *Client
	mu     sync.Mutex // guards hints
	hints  map[*hints]struct{}
}

// Follow returns caches of the objects that the label selector matches. Close ends them.
func (c *Client) Follow(selector string) *Caches {
	s := &Caches{client: c, hints: make(map[*hints]struct{})}
	s.Pods = newCache(c, c.Pods, "Pods", selector, stripPod, s.changed)
	s.Claims = newCache(c, c.Claims, "PersistentVolumeClaims", selector, stripClaim, s.changed)
	s.Jobs = newCache(c, c.Jobs, "Jobs", selector, stripJob, s.changed)
	return s
}

// Changes sends the workspace of each object that changes from now on. If a workspace changes several times before the
// caller reads, it is sent once. A listing after that shows them. The channel is closed when ctx ends or the client is
// closed.
func (s *Caches) Changes(ctx context.Context) <-chan workspace.ID {
	h := &hints{ids: make(map[workspace.ID]struct{}), wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.hints[h] = struct{}{}
	s.mu.Unlock()
	s.Pods.start()
	s.Claims.start()
	s.Jobs.start()
	out := make(chan workspace.ID)
	s.client.task("passing on what has changed", func(closed context.Context) {
		defer close(out)
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.hints, h)
		}()
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(closed, stop)()
		for {
			select {
			case <-h.wake:
			case <-ctx.Done():
				return
			}
			for id := range h.take() {
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			}
		}
	}, func() { close(out) })
	return out
}

// changed tells all channels of Changes. It does not block.
func (s *Caches) changed(id workspace.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.hints {
		h.add(id)
	}
}

// hints are the changed workspaces that one reader has yet to receive.
type hints struct {
	mu   sync.Mutex
	ids  map[workspace.ID]struct{}
	wake chan struct{}
}

func (h *hints) add(id workspace.ID) {
	h.mu.Lock()
	h.ids[id] = struct{}{}
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hints) take() map[workspace.ID]struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := h.ids
	h.ids = make(map[workspace.ID]struct{})
	return ids
}
