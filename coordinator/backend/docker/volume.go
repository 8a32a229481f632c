package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Volumes implements [backend.Backend]. A volume that the engine created in place of a
// home has another kind and is not listed.
func (d *Docker) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	list, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: d.filter(KindHome, ids, nil)})
	if err != nil {
		return nil, wrap("listing volumes", err)
	}
	wanted, found := selector(ids), make(map[workspace.ID]workspace.Volume, len(list.Volumes))
	for _, v := range list.Volumes {
		if v == nil {
			continue
		}
		id, err := workspace.ParseID(v.Labels[LabelWorkspace])
		if err == nil && wanted(id) && v.Name == id.VolumeName() && d.owns(v.Labels, id, KindHome) {
			found[id] = workspace.Volume{OpID: v.Labels[LabelOp]}
		}
	}
	return found, nil
}

// homeExists reports whether the home volume exists. A volume that the engine created
// in its place does not count and is removed: no container ran on it, so it holds
// nothing of the user's. A volume of another owner is an error.
func (d *Docker) homeExists(ctx context.Context, id workspace.ID) (bool, error) {
	name := id.VolumeName()
	v, err := d.api.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, wrap("inspecting volume "+name, err)
	case d.owns(v.Labels, id, KindHome):
		return true, nil
	case !d.owns(v.Labels, id, kindAutoCreated):
		return false, nameTaken("volume", name)
	}
	// It cannot be removed while a container that was never started mounts it.
	err = d.api.VolumeRemove(ctx, name, false)
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return false, wrap("removing the empty volume that the engine created as "+name, err)
	}
	return false, nil
}

// Provision implements [backend.Backend]. A volume that the engine created in place of
// a home is removed, and the creation is repeated once.
func (d *Docker) Provision(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name := id.VolumeName()
	for range 2 {
		// If the volume exists, the engine returns that one.
		v, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: d.labels(id, KindHome)})
		if err != nil {
			return wrap("creating volume "+name, err)
		}
		if d.owns(v.Labels, id, KindHome) {
			return nil
		}
		if _, err := d.homeExists(ctx, id); err != nil {
			return err
		}
	}
	return fmt.Errorf("creating volume %s: an empty volume of that name is still mounted by a container", name)
}

// DeleteVolume implements [backend.Backend]. It does not force the removal: the engine
// refuses while any container, also one that has exited, uses the volume.
func (d *Docker) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	exists, err := d.homeExists(ctx, id)
	if err != nil || !exists {
		return err
	}
	name := id.VolumeName()
	err = d.api.VolumeRemove(ctx, name, false)
	switch {
	case errdefs.IsNotFound(err):
		return nil
	case errdefs.IsConflict(err):
		return fmt.Errorf("deleting volume %s: %w: %w", name, backend.ErrVolumeInUse, err)
	}
	return wrap("deleting volume "+name, err)
}

// Identity implements [backend.Backend].
func (d *Docker) Identity(ctx context.Context) (string, error) {
	info, err := d.api.Info(ctx)
	return info.ID, wrap("asking the engine for its id", err)
}

// Pull implements [backend.Backend].
func (d *Docker) Pull(ctx context.Context, image string, progress func(done, total int64)) error {
	return d.pull(ctx, image)
}
