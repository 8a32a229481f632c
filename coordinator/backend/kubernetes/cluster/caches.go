package cluster

import (
	"context"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Caches hold the objects of one installation, as the cluster's watches tell of them:
// looking costs no request. They are filled on first use. Objects in them are shared, must not
// be changed, and lack what is not read: see stripPod, stripClaim and stripJob.
type Caches struct {
	Pods   *Cache[*corev1.Pod]
	Claims *Cache[*corev1.PersistentVolumeClaim]
	Jobs   *Cache[*batchv1.Job]

	client *Client
	mu     sync.Mutex // guards what follows
	hints  map[*hints]struct{}
}

// Follow returns caches of the objects that the label selector names. They end with the
// client.
func (c *Client) Follow(selector string) *Caches {
	s := &Caches{client: c, hints: make(map[*hints]struct{})}
	s.Pods = newCache(c, c.Pods, "Pods", selector, stripPod, s.changed)
	s.Claims = newCache(c, c.Claims, "PersistentVolumeClaims", selector, stripClaim, s.changed)
	s.Jobs = newCache(c, c.Jobs, "Jobs", selector, stripJob, s.changed)
	return s
}

// Changes sends the workspace of each object that changes from now on. Changes that come quicker
// than they are read are sent once. A listing made after that shows them. The channel is closed
// when ctx ends or the client is closed.
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
		for {
			select {
			case <-h.wake:
			case <-ctx.Done():
				return
			case <-closed.Done():
				return
			}
			for id := range h.take() {
				select {
				case out <- id:
				case <-ctx.Done():
					return
				case <-closed.Done():
					return
				}
			}
		}
	}, func() { close(out) })
	return out
}

// changed tells all channels of Changes. It does not wait.
func (s *Caches) changed(id workspace.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.hints {
		h.add(id)
	}
}

// hints are the workspaces that one reader has not been told of yet.
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
