package memory

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Objects implements [backend.Objects]. This engine has no scratch volumes and no networks.
func (b *Backend) Objects(ctx context.Context) ([]backend.Object, error) {
	if err := b.before(ctx, "Objects", ""); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []backend.Object
	add := func(kind backend.ObjectKind, name string, id workspace.ID, opID string, o origin) {
		if o.owner == b.owner {
			all = append(all, backend.Object{
				Kind: kind, Name: name, Workspace: id, OpID: opID, Created: o.created, UID: o.uid,
			})
		}
	}
	for id, k := range b.containers {
		add(backend.ObjectContainer, id.ContainerName(), id, "", k.origin)
	}
	for id, v := range b.volumes {
		add(backend.ObjectVolume, id.VolumeName(), id, v.opID, v.origin)
	}
	for id, jobs := range b.jobs {
		for _, j := range jobs {
			spec := backend.JobSpec{ID: id, Kind: j.state.Kind, OpID: j.state.OpID}
			add(backend.ObjectJob, spec.Name(), id, spec.OpID, j.origin)
		}
	}
	return all, nil
}

// Remove implements [backend.Objects].
func (b *Backend) Remove(ctx context.Context, o backend.Object) error {
	if err := b.begin(ctx, "Remove", o.Workspace); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	id := o.Workspace
	is := func(have origin) bool { return have.owner == b.owner && have.uid == o.UID }
	switch o.Kind {
	case backend.ObjectContainer:
		if k := b.containers[id]; k != nil && is(k.origin) {
			delete(b.containers, id)
		}
	case backend.ObjectVolume:
		if v, ok := b.volumes[id]; ok && is(v.origin) {
			if b.containers[id] != nil || len(b.jobs[id]) > 0 {
				return fmt.Errorf("removing volume %s: %w", o.Name, backend.ErrVolumeInUse)
			}
			delete(b.volumes, id)
		}
	case backend.ObjectJob:
		b.deleteJobs(id, func(j *job) bool { return is(j.origin) })
	default:
		return fmt.Errorf("removing %s: there is no %s here", o.Name, o.Kind)
	}
	b.changed(b.owner, id)
	return nil
}
