package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Volumes implements [backend.Backend]. A volume that the engine created in place of a
// home has another kind and is not listed.
func (d *Docker) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: d.filter(KindHome, ids, nil)})
	if err != nil {
		return nil, engine.Wrap("listing volumes", err)
	}
	wanted, found := selector(ids), make(map[workspace.ID]workspace.Volume, len(list.Volumes))
	seen := make(map[string]struct{}, len(list.Volumes))
	for _, v := range list.Volumes {
		if v == nil {
			continue
		}
		id, err := workspace.ParseID(v.Labels[LabelWorkspace])
		if err == nil && wanted(id) && v.Name == id.VolumeName() && d.owns(v.Labels, id, KindHome) {
			found[id] = workspace.Volume{OpID: v.Labels[LabelOp], CreatedAt: engineTime(v.CreatedAt)}
			seen[v.Name] = struct{}{}
		}
	}
	if len(ids) == 0 {
		d.owned.Retain(seen)
	}
	return found, nil
}

// home returns the home volume, or nil if there is none. A volume that the engine
// created in its place does not count and is removed: no container ran on it, so it
// holds nothing of the user's. A volume of another owner is an error.
func (d *Docker) home(ctx context.Context, id workspace.ID) (*volume.Volume, error) {
	name := id.VolumeName()
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	v, err := d.api.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, engine.Wrap("inspecting volume "+name, err)
	case d.owns(v.Labels, id, KindHome):
		return &v, nil
	case !d.owns(v.Labels, id, kindAutoCreated):
		return nil, engine.NotOurs("volume", name)
	}
	// It stays while a container that was never started mounts it.
	return nil, d.prune(ctx, id, kindAutoCreated)
}

// Provision implements [backend.Backend]. A volume that the engine created in place of
// a home is removed, and the creation is repeated once.
func (d *Docker) Provision(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name, labels := id.VolumeName(), d.labels(id, KindHome)
	if opID != "" {
		labels[LabelOp] = opID
	}
	for range 2 {
		// If the volume exists, the engine returns that one, with its own labels.
		v, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: name, Driver: "local", Labels: labels, DriverOpts: sizeOption(d.opts.HomeBytes)})
		if err != nil {
			return engine.Wrap("creating volume "+name, homeRefused(d.opts.HomeBytes, err))
		}
		if d.owns(v.Labels, id, KindHome) {
			if have := v.Labels[LabelOp]; have != opID {
				return workspace.Fail(workspace.ReasonConflict,
					fmt.Errorf("creating volume %s: it exists and was made by operation %q, not %q; it is left alone", name, have, opID))
			}
			return nil
		}
		if _, err := d.home(ctx, id); err != nil {
			return err
		}
	}
	return fmt.Errorf("creating volume %s: an empty volume of that name is still mounted by a container", name)
}

// DeleteVolume implements [backend.Backend]. The engine itself keeps to the incarnation:
// see prune. It refuses while any container, also one that has exited, uses the volume.
func (d *Docker) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	meant := func() (bool, error) {
		v, err := d.home(ctx, id)
		return err == nil && v != nil && v.Labels[LabelOp] == opID, err
	}
	if there, err := meant(); err != nil || !there {
		return err
	}
	made := filters.Arg("label", LabelOp+"="+opID)
	if opID == "" {
		made = filters.Arg("label!", LabelOp)
	}
	if err := d.prune(ctx, id, KindHome, made); err != nil {
		return err
	}
	if there, err := meant(); err != nil || !there {
		return err
	}
	return d.whyNotPruned(ctx, id.VolumeName())
}

// pruneFor is how long prune waits for those of other processes. One takes as long as
// the engine needs to count and remove the files of a home.
const pruneFor = 5 * time.Minute

// prune removes the workspace's volume of that kind if it has the labels and no
// container uses it. Removing by name would not do: the request may arrive late, when
// another volume has taken the name (SPEC 12.11). The engine compares the labels and
// removes in one operation of which only one runs at a time; a volume can be replaced in
// between only by someone who removes it by name, which this package never does. It
// answers alike whether it has removed something or not, so that callers look again.
func (d *Docker) prune(ctx context.Context, id workspace.ID, kind string, more ...filters.KeyValuePair) error {
	doing := "deleting volume " + id.VolumeName()
	args := filters.NewArgs(more...)
	for k, v := range d.labels(id, kind) {
		args.Add("label", k+"="+v)
	}
	// From this version on, named volumes have to be asked for.
	if versions.GreaterThanOrEqualTo(d.api.ClientVersion(), "1.42") {
		args.Add("all", "true")
	}
	select {
	case d.pruning <- struct{}{}:
		defer func() { <-d.pruning }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return retryChanged(ctx, doing, pruneFor, func() error {
		_, err := d.api.VolumesPrune(ctx, args)
		if errdefs.IsConflict(err) {
			return fmt.Errorf("%w: %w", backend.ErrChanged, err) // another one is running, whose ever it is
		}
		return engine.Wrap(doing, err)
	})
}

// whyNotPruned is the error for a volume that is still there.
func (d *Docker) whyNotPruned(ctx context.Context, name string) error {
	users, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("volume", name))})
	if err != nil {
		return engine.Wrap("listing the containers that use volume "+name, err)
	}
	for _, c := range users {
		for _, m := range c.Mounts {
			if m.Name == name && len(c.Names) > 0 {
				return fmt.Errorf("deleting volume %s: container %s uses it: %w", name, strings.TrimPrefix(c.Names[0], "/"), backend.ErrVolumeInUse)
			}
		}
	}
	return fmt.Errorf("deleting volume %s: the engine has not removed it; its log says why", name)
}
