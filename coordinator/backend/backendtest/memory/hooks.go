package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Print adds to the container's output, as its program would. It does nothing if there is no container.
func (b *Backend) Print(id workspace.ID, output string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.containers[id]; k != nil {
		k.logs += output
		b.printed()
	}
}

// Exit makes the container exit with code, as if it had run for as long as lasted says and had printed output. It does
// nothing if there is no container.
func (b *Backend) Exit(id workspace.ID, code int, lasted time.Duration, output string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.containers[id]
	if k == nil {
		return
	}
	now := time.Now()
	// There is no endpoint: an exited container cannot be reached.
	k.state = workspace.Container{ExitCode: code, StartedAt: now.Add(-lasted), FinishedAt: now, Volume: true}
	k.logs += output
	b.changed(b.owner, id)
}

// AwaitThaw waits until the container is not frozen. A test that plays the container's program calls it where a frozen
// process would stop. It returns the error of ctx, or [backend.ErrNotFound] if the container, and thus its program, has
// ended.
func (b *Backend) AwaitThaw(ctx context.Context, id workspace.ID) error {
	b.mu.Lock()
	for first := b.containers[id]; ; b.mu.Lock() {
		k, news := b.containers[id], b.news
		ended := k == nil || k != first || !k.state.Running
		waits := !ended && k.frozen()
		b.mu.Unlock()
		if ended {
			return fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
		}
		if !waits {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// LoseVolume immediately removes the volumes and their containers, bypassing the interface, as an operator or a broken
// disk would.
func (b *Backend) LoseVolume(ids ...workspace.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range ids {
		delete(b.volumes, id)
		delete(b.containers, id)
		b.changed(b.owner, id)
	}
}

// Doubt makes the listings report why it is unknown whether the volume will persist; "" ends that. It does nothing if
// there is no volume.
func (b *Backend) Doubt(id workspace.ID, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.volumes[id]; ok {
		v.doubt = why
		b.volumes[id] = v
		b.changed(b.owner, id)
	}
}

// Change changes the listed state of the container, such as its health. It does nothing if there is no container.
func (b *Backend) Change(id workspace.ID, change func(*workspace.Container)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if k := b.containers[id]; k != nil {
		change(&k.state)
		b.changed(b.owner, id)
	}
}

// ChangeJobs changes the listed state of the workspace's jobs.
func (b *Backend) ChangeJobs(id workspace.ID, change func(*workspace.Job)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs[id] {
		change(&j.state)
	}
	b.changed(b.owner, id)
}

// Report sets the progress of a running job. [Backend.Work] calls it.
func (b *Backend) Report(spec backend.JobSpec, progress string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs[spec.ID] {
		if j.owner == b.owner && j.state.Kind == spec.Kind && j.state.OpID == spec.OpID {
			j.state.Progress = progress
		}
	}
}

// Forget makes the engine lack an image until it is pulled.
func (e *Engine) Forget(image string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.missing[image] = struct{}{}
}

// Swap makes another, empty engine with that identity answer from now on, as if the address were wrong. The returned
// function brings the former engine back with all its contents.
func (e *Engine) Swap(identity string) (back func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.contents
	e.contents = newContents(identity)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.contents = was
	}
}
