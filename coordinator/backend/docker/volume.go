package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Volumes implements [backend.Backend].
func (d *Docker) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]struct{}, error) {
	list, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: d.listed(KindHome, ids, nil)})
	if err != nil {
		return nil, wrap("listing volumes", err)
	}
	wanted, found := chosen(ids), make(map[workspace.ID]struct{}, len(list.Volumes))
	for _, v := range list.Volumes {
		if v == nil {
			continue
		}
		id, err := workspace.ParseID(v.Labels[LabelWorkspace])
		if err == nil && wanted(id) && v.Name == id.VolumeName() && d.ours(v.Labels, id, KindHome) {
			found[id] = struct{}{}
		}
	}
	return found, nil
}

// home reports whether the home volume exists. What the engine made in its place
// is removed and counts as absent; what belongs to somebody else is an error.
func (d *Docker) home(ctx context.Context, id workspace.ID) (bool, error) {
	name := id.VolumeName()
	v, err := d.api.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, wrap("looking at volume "+name, err)
	case d.ours(v.Labels, id, KindHome):
		return true, nil
	case !d.ours(v.Labels, id, kindAccident):
		return false, taken("volume", name)
	}
	// While a container that was never started holds it, it cannot go yet.
	err = d.api.VolumeRemove(ctx, name, false)
	if err != nil && !errdefs.IsNotFound(err) && !errdefs.IsConflict(err) {
		return false, wrap("removing the empty volume that the engine made as "+name, err)
	}
	return false, nil
}

// Provision implements [backend.Backend].
func (d *Docker) Provision(ctx context.Context, id workspace.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	name := id.VolumeName()
	for range 2 {
		// The engine answers with the volume of that name if there is one.
		v, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: d.labels(id, KindHome)})
		if err != nil {
			return wrap("creating volume "+name, err)
		}
		if d.ours(v.Labels, id, KindHome) {
			return nil
		}
		if _, err := d.home(ctx, id); err != nil {
			return err
		}
	}
	return fmt.Errorf("creating volume %s: a container that was made without it still holds its name", name)
}

// DeleteVolume implements [backend.Backend]. A volume that a container holds is
// [backend.ErrVolumeInUse].
func (d *Docker) DeleteVolume(ctx context.Context, id workspace.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	there, err := d.home(ctx, id)
	if err != nil || !there {
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
