package kubernetes

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// quietLimit is how often the watches are checked.
const quietLimit = 5 * time.Second

// Events implements [backend.Core]. The caches already show a change when its hint is sent. The channel is closed when
// the cluster stops answering.
func (b *Backend) Events(ctx context.Context) (<-chan workspace.ID, error) {
	ctx, cancel := context.WithCancel(ctx)
	changes := b.caches.Changes(ctx)
	if err := b.follows(ctx); err != nil {
		cancel()
		return nil, err
	}
	ids := make(chan workspace.ID, 64) // covers a short delay of the reader, such as one observation
	go func() {
		defer close(ids)
		defer cancel()
		// A panic ends the stream like a lost connection: the reader subscribes again.
		guard.Run("watching the cluster's events", func() { b.pass(ctx, changes, ids) })
	}()
	return ids, nil
}

// pass passes the changes on while the caches follow the cluster.
func (b *Backend) pass(ctx context.Context, changes <-chan workspace.ID, ids chan<- workspace.ID) {
	tick := time.NewTicker(quietLimit)
	defer tick.Stop()
	for {
		select {
		case id, ok := <-changes:
			if !ok {
				return
			}
			select {
			case ids <- id:
			case <-ctx.Done():
				return
			}
		case <-tick.C:
			if b.follows(ctx) != nil {
				return
			}
		}
	}
}

// follows returns an error unless the caches follow the cluster. It costs no request.
func (b *Backend) follows(ctx context.Context) error {
	const none = workspace.ID("00000000-0000-4000-8000-000000000000")
	if _, err := list(ctx, b.caches.Pods, "listening for events", []workspace.ID{none}); err != nil {
		return err
	}
	_, err := list(ctx, b.caches.Jobs, "listening for events", []workspace.ID{none})
	return err
}
