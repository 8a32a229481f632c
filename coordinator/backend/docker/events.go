package docker

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Events implements [backend.Core]. It reports containers and jobs that start, end, are paused, are removed, or change
// their health. The stream ends when the engine stops or hangs. When no events arrive, it is unclear whether the engine
// still works. So after some time without events, Events pings the engine. When the stream ends, the caller observes
// everything and subscribes again.
func (d *Docker) Events(ctx context.Context) (<-chan workspace.ID, error) {
	// The client reports a failed subscription only as the end of the stream. So ping first, to give the caller an
	// error.
	if err := d.api.Answers(ctx); err != nil {
		return nil, engine.Wrap("listening for events", err)
	}
	args := filters.NewArgs(
		filters.Arg("type", string(events.ContainerEventType)),
		filters.Arg("label", spec.LabelInstallation+"="+d.opts.Installation),
	)
	for _, action := range []events.Action{events.ActionStart, events.ActionDie, events.ActionDestroy,
		events.ActionPause, events.ActionUnPause, events.ActionHealthStatus} {
		args.Add("event", string(action))
	}
	// The engine answers just before it begins to collect events. Asking for the last second as well leaves no gap.
	// Hints may be repeated.
	now, err := d.api.Now(ctx)
	if err != nil {
		return nil, err
	}
	since := strconv.FormatInt(now.Add(-time.Second).Unix(), 10)
	ctx, cancel := context.WithCancel(ctx)
	messages, failed := d.api.Events(ctx, events.ListOptions{Since: since, Filters: args})
	// The buffer covers a short delay of the reader, such as one observation.
	ids := make(chan workspace.ID, 64)
	var settling sync.WaitGroup
	hint := func(id workspace.ID) {
		select {
		case ids <- id:
		case <-ctx.Done():
		}
	}
	go func() {
		defer close(ids)
		defer settling.Wait()
		defer cancel()
		quiet := time.NewTimer(quietLimit)
		defer quiet.Stop()
		// A panic ends the stream like a lost connection: the reader subscribes again.
		guard.Run("watching the engine's events", func() { d.pass(ctx, messages, failed, quiet, &settling, hint) })
	}()
	return ids, nil
}

// shown are the events that the engine sends after its listings show the change. It sends the others (an end, a pause,
// the end of a pause) while it still works on the container.
var shown = map[events.Action]bool{events.ActionStart: true, events.ActionDestroy: true}

// pass passes the events on until the stream ends.
func (d *Docker) pass(ctx context.Context, messages <-chan events.Message, failed <-chan error, quiet *time.Timer,
	settling *sync.WaitGroup, hint func(workspace.ID)) {
	for {
		select {
		case <-quiet.C:
			if d.api.Answers(ctx) != nil {
				return
			}
			quiet.Reset(quietLimit)
		case m := <-messages:
			quiet.Reset(quietLimit)
			id, err := workspace.ParseID(m.Actor.Attributes[spec.LabelWorkspace])
			if err != nil {
				continue
			}
			if m.Action == events.ActionStart {
				d.inspector.Restarted(id, m.Actor.ID)
			}
			if shown[m.Action] {
				hint(id)
				continue
			}
			settling.Go(func() {
				guard.Run("waiting for the end of a change", func() { d.settle(ctx, m.Actor.ID) })
				hint(id)
			})
		case <-failed:
			return
		}
	}
}

// settleLimit bounds how long settle waits for a change to become visible while the engine still works on the
// container.
const settleLimit = 5 * time.Second

// settle returns once listings show the change that an event reported. After a container has ended, the engine unmounts
// its files and disconnects it, which takes up to a second on a busy host. After a pause, it writes the container's
// state to its disk. The engine sends no further event when it is done, but until then it does not answer questions
// about the container.
func (d *Docker) settle(ctx context.Context, containerID string) {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	_, _ = d.api.Inspect(ctx, containerID) // only that it answers matters
}

// quietLimit is the time without events after which the engine is pinged.
const quietLimit = 15 * time.Second
