// Package home keeps the home volumes of workspaces on a Docker engine. It knows whether a home exists, who owns it,
// how much it holds, and how full the disk of all homes is.
//
// It owns the volumes of the kind [spec.KindHome], and the short-lived containers that measure them. It must not delete
// a home except for the operation that made it. Of a workspace's container, it must touch only the home. Its caller
// decides what may use a volume, and when.
package home

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
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Volumes are the homes of an installation. They are safe for concurrent use.
type Volumes struct {
	api  *engine.Client
	opts spec.Options
	// pruning is held while this process removes a volume: the engine refuses two removals at once.
	pruning chan struct{}
	// owned are the homes whose owner is known to be right, by volume name. The value is the image and the operation.
	owned backend.Memo[string]
	// disk knows where the disk of the volumes is.
	disk diskProbe
}

// New returns the homes of the installation that the options name. The options must have their defaults. It performs no
// I/O.
func New(api *engine.Client, o spec.Options) *Volumes {
	return &Volumes{api: api, opts: o, pruning: make(chan struct{}, 1), disk: diskProbe{asking: make(chan struct{}, 1)}}
}

// Volumes returns the homes of these workspaces, or all homes if no ids are given. A volume that the engine created
// instead of a missing home has another kind and is not listed.
func (h *Volumes) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := h.api.VolumeList(ctx, volume.ListOptions{Filters: h.opts.Filter(spec.KindHome, ids, nil)})
	if err != nil {
		return nil, engine.Wrap("listing volumes", err)
	}
	wanted, found := spec.Selector(ids), make(map[workspace.ID]workspace.Volume, len(list.Volumes))
	seen := make(map[string]struct{}, len(list.Volumes))
	for _, v := range list.Volumes {
		if v == nil {
			continue
		}
		id, err := workspace.ParseID(v.Labels[spec.LabelWorkspace])
		if err == nil && wanted(id) && v.Name == id.VolumeName() && h.opts.Owns(v.Labels, id, spec.KindHome) {
			found[id] = workspace.Volume{OpID: v.Labels[spec.LabelOp], CreatedAt: engine.Time(v.CreatedAt)}
			seen[v.Name] = struct{}{}
		}
	}
	h.owned.Retain(ids, seen)
	return found, nil
}

// Find returns the home volume, or nil if there is none. It removes a volume that the engine created instead of a
// missing home: no container ever ran on it, so it holds no user's files. A volume of another owner is an error.
func (h *Volumes) Find(ctx context.Context, id workspace.ID) (*volume.Volume, error) {
	name := id.VolumeName()
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	v, err := h.api.VolumeInspect(ctx, name)
	switch {
	case errdefs.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, engine.Wrap("inspecting volume "+name, err)
	case h.opts.Owns(v.Labels, id, spec.KindHome):
		return &v, nil
	case !h.opts.Owns(v.Labels, id, spec.KindAutoCreated):
		return nil, backend.NotOurs("volume", name)
	}
	// The volume stays while a container that never started mounts it.
	return nil, h.DeleteAutoCreated(ctx, id)
}

// DeleteAutoCreated removes a volume that the engine created instead of a missing home. It never removes a home.
func (h *Volumes) DeleteAutoCreated(ctx context.Context, id workspace.ID) error {
	return h.prune(ctx, id, spec.KindAutoCreated)
}

// Missing is the error for a missing home volume (SPEC 1, contract 6).
func Missing(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume,
		fmt.Errorf("volume %s does not exist, and no container may run without it", id.VolumeName()))
}

// Check fails unless the home volume exists. A volume that the engine created instead does not count.
func (h *Volumes) Check(ctx context.Context, id workspace.ID) error {
	v, err := h.Find(ctx, id)
	if err == nil && v == nil {
		err = Missing(id)
	}
	return err
}

// Provision creates the home, unless that operation has created it already. It removes a volume that the engine created
// instead of a missing home, and then tries once more.
func (h *Volumes) Provision(ctx context.Context, s backend.VolumeSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	id, opID := s.ID, s.OpID
	name, labels := id.VolumeName(), spec.Owned(h.opts.Labels(id, spec.KindHome), s.Owner)
	if opID != "" {
		labels[spec.LabelOp] = opID
	}
	for range 2 {
		// If the volume exists, the engine returns it, with its own labels.
		v, err := h.api.VolumeCreate(ctx, volume.CreateOptions{
			Name: name, Driver: "local", Labels: labels, DriverOpts: spec.SizeOption(h.opts.HomeBytes),
		})
		if err != nil {
			return engine.Wrap("creating volume "+name, spec.HomeRefused(h.opts.HomeBytes, err))
		}
		if h.opts.Owns(v.Labels, id, spec.KindHome) {
			if have := v.Labels[spec.LabelOp]; have != opID {
				return workspace.Fail(workspace.ReasonConflict,
					fmt.Errorf("creating volume %s: it exists and was made by operation %q, not %q; it is left alone",
						name, have, opID))
			}
			return nil
		}
		if _, err := h.Find(ctx, id); err != nil {
			return err
		}
	}
	return fmt.Errorf("creating volume %s: an empty volume of that name is still mounted by a container", name)
}

// DeleteVolume removes the home that the operation made. The engine itself ensures that it removes this incarnation:
// see prune. It refuses while any container, even one that has exited, uses the volume.
func (h *Volumes) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	meant := func() (bool, error) {
		v, err := h.Find(ctx, id)
		return err == nil && v != nil && v.Labels[spec.LabelOp] == opID, err
	}
	if there, err := meant(); err != nil || !there {
		return err
	}
	made := filters.Arg("label", spec.LabelOp+"="+opID)
	if opID == "" {
		made = filters.Arg("label!", spec.LabelOp)
	}
	if err := h.prune(ctx, id, spec.KindHome, made); err != nil {
		return err
	}
	if there, err := meant(); err != nil || !there {
		return err
	}
	return h.whyNotPruned(ctx, id.VolumeName())
}

// pruneFor is how long prune waits for other processes' removals, and pruneEvery how often it tries. A removal takes as
// long as the engine needs to count and remove the files of a home.
const (
	pruneFor   = 5 * time.Minute
	pruneEvery = 25 * time.Millisecond
)

// prune removes the workspace's volume of that kind if it has the labels and no container uses it. Removing it by name
// is not safe: the request may arrive late, when another volume has the name (SPEC 12.11). The engine compares the
// labels and removes the volume in one operation, of which only one runs at a time. While this operation runs, another
// volume could get the name only after a removal by name, and this package never removes by name. The engine's answer
// does not tell whether anything was removed, so callers must look again.
func (h *Volumes) prune(ctx context.Context, id workspace.ID, kind string, more ...filters.KeyValuePair) error {
	doing := "deleting volume " + id.VolumeName()
	args := filters.NewArgs(more...)
	for k, v := range h.opts.Labels(id, kind) {
		args.Add("label", k+"="+v)
	}
	// From this version of the API on, the request removes named volumes only if it asks for that.
	if versions.GreaterThanOrEqualTo(h.api.ClientVersion(), "1.42") {
		args.Add("all", "true")
	}
	select {
	case h.pruning <- struct{}{}:
		defer func() { <-h.pruning }()
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", doing, ctx.Err())
	}
	return backend.RetryChanged(ctx, doing, pruneEvery, pruneFor, func() error {
		_, err := h.api.VolumesPrune(ctx, args)
		if errdefs.IsConflict(err) {
			return fmt.Errorf("%w: %w", backend.ErrChanged, err) // another process's removal is running
		}
		return engine.Wrap(doing, err)
	})
}

// whyNotPruned returns the error for a volume that is still there.
func (h *Volumes) whyNotPruned(ctx context.Context, name string) error {
	users, err := h.api.ContainerList(ctx, container.ListOptions{
		All: true, Filters: filters.NewArgs(filters.Arg("volume", name)),
	})
	if err != nil {
		return engine.Wrap("listing the containers that use volume "+name, err)
	}
	for _, c := range users {
		for _, m := range c.Mounts {
			if m.Name == name && len(c.Names) > 0 {
				return fmt.Errorf("deleting volume %s: container %s uses it: %w", name,
					strings.TrimPrefix(c.Names[0], "/"), backend.ErrVolumeInUse)
			}
		}
	}
	return fmt.Errorf("deleting volume %s: the engine has not removed it; its log says why", name)
}
