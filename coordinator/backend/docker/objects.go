package docker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// objectKinds maps the kinds of containers and volumes to those of [backend.Object].
var objectKinds = map[string]backend.ObjectKind{
	spec.KindWorkspace: backend.ObjectContainer, spec.KindJob: backend.ObjectJob, spec.KindHome: backend.ObjectVolume,
	spec.KindEgress: backend.ObjectJob, spec.KindUsage: backend.ObjectJob,
	spec.KindSandbox: backend.ObjectSandbox,
	spec.KindScratch: backend.ObjectScratch, spec.KindAutoCreated: backend.ObjectScratch,
}

// Objects implements [backend.Core]. It lists a scratch volume only if no container uses it; the others disappear with
// their container. It omits the network in use.
func (d *Docker) Objects(ctx context.Context) ([]backend.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	own := filters.Arg("label", spec.LabelInstallation+"="+d.opts.Installation)
	containers, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(own)})
	if err != nil {
		return nil, engine.Wrap("listing containers", err)
	}
	volumes, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: filters.NewArgs(own)})
	if err != nil {
		return nil, engine.Wrap("listing volumes", err)
	}
	networks, err := d.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(own)})
	if err != nil {
		return nil, engine.Wrap("listing networks", err)
	}
	var all []backend.Object
	add := func(o backend.Object, labels map[string]string) {
		o.Kind, o.Workspace, o.OpID = objectKinds[labels[spec.LabelKind]], workspace.ID(labels[spec.LabelWorkspace]),
			labels[spec.LabelOp]
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	mounted := make(map[string]struct{})
	for _, c := range containers {
		for _, m := range c.Mounts {
			mounted[m.Name] = struct{}{}
		}
		if len(c.Names) > 0 {
			add(backend.Object{
				Name: strings.TrimPrefix(c.Names[0], "/"), Created: time.Unix(c.Created, 0), UID: c.ID,
			}, c.Labels)
		}
	}
	for _, v := range volumes.Volumes {
		if _, used := mounted[v.Name]; used && objectKinds[v.Labels[spec.LabelKind]] == backend.ObjectScratch {
			continue
		}
		// A volume has no id. Its name and its operation serve as its id.
		add(backend.Object{Name: v.Name, Created: engine.Time(v.CreatedAt), UID: v.Name}, v.Labels)
	}
	for _, n := range networks {
		if !d.net.Serves(n) && (d.jobs == nil || !d.jobs.Serves(n)) {
			all = append(all, backend.Object{Kind: backend.ObjectNetwork, Name: n.Name, Created: n.Created, UID: n.ID})
		}
	}
	return backend.ByOwnClock(ctx, all, d.api.Now)
}

// Remove implements [backend.Core]. It reads the labels again first, because o may come from an operator.
func (d *Docker) Remove(ctx context.Context, o backend.Object) error {
	doing := fmt.Sprintf("removing %s %s", o.Kind, o.Name)
	switch o.Kind {
	case backend.ObjectContainer, backend.ObjectJob, backend.ObjectSandbox:
		c, err := d.api.Inspect(ctx, o.UID)
		if err != nil || c == nil || c.ID != o.UID {
			return err
		}
		if c.Config == nil || c.Config.Labels[spec.LabelInstallation] != d.opts.Installation {
			return backend.NotOurs("container", o.Name)
		}
		return engine.Wrap(doing, d.remove(ctx, c.ID))
	case backend.ObjectVolume:
		return d.DeleteVolume(ctx, o.Workspace, o.OpID)
	case backend.ObjectScratch:
		return d.removeScratch(ctx, o)
	case backend.ObjectNetwork:
		n, err := d.api.NetworkInspect(ctx, o.UID, network.InspectOptions{})
		if errdefs.IsNotFound(err) || err == nil && n.ID != o.UID {
			return nil
		}
		if err != nil {
			return engine.Wrap(doing, err)
		}
		if n.Labels[spec.LabelInstallation] != d.opts.Installation {
			return backend.NotOurs("network", o.Name)
		}
		// The engine refuses while a container is connected.
		err = d.api.NetworkRemove(ctx, o.UID)
		if errdefs.IsNotFound(err) {
			err = nil
		}
		return engine.Wrap(doing, err)
	}
	return fmt.Errorf("%s: unknown kind of object", doing)
}

// removeScratch removes a volume without user data.
func (d *Docker) removeScratch(ctx context.Context, o backend.Object) error {
	v, err := d.api.VolumeInspect(ctx, o.Name)
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return engine.Wrap("inspecting volume "+o.Name, err)
	}
	kind := v.Labels[spec.LabelKind]
	if v.Labels[spec.LabelInstallation] != d.opts.Installation || objectKinds[kind] != backend.ObjectScratch {
		return backend.NotOurs("volume", o.Name)
	}
	if id, err := workspace.ParseID(v.Labels[spec.LabelWorkspace]); err == nil && kind == spec.KindAutoCreated {
		return d.homes.DeleteAutoCreated(ctx, id) // it has the name of a home
	}
	// The engine has generated the volume's name, which no other volume will ever have.
	err = d.api.VolumeRemove(ctx, o.Name, false)
	if errdefs.IsConflict(err) {
		err = fmt.Errorf("%w: %w", backend.ErrVolumeInUse, err)
	}
	return engine.Wrap("removing volume "+o.Name, err)
}
