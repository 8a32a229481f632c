package docker

import (
	"context"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/bridge"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/firewall"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Labels of everything that this package creates. They are stored on the engine, so
// they must not change while an installation has workspaces.
const (
	// LabelInstallation is [Options.Installation]: whose object it is (SPEC 12.8).
	LabelInstallation = "codehub.installation"
	// LabelWorkspace is the workspace's id.
	LabelWorkspace = "codehub.workspace"
	// LabelKind is what the object is for, one of the Kind constants.
	LabelKind = "codehub.kind"
	// LabelOp is the operation that made a home volume or a job. Volumes of earlier
	// releases do not have it.
	LabelOp = "codehub.op"
	// LabelJob is a job's workspace.JobKind.
	LabelJob = "codehub.job"
	// LabelTerm is the term of the leader that made a container. Nothing depends on it.
	LabelTerm = "codehub.term"
	// labelPort is the port of a workspace's application, and labelBasePath the path prefix
	// that it keeps. Containers of earlier releases have neither.
	labelPort     = "codehub.port"
	labelBasePath = "codehub.base-path"
	// labelSpec is a hash of the spec that a container was created from.
	labelSpec = "codehub.spec"
)

// The values of [LabelKind].
const (
	// KindWorkspace and KindJob are containers, KindHome is a volume.
	KindWorkspace = "workspace"
	KindJob       = "job"
	KindHome      = "home"
	// kindScratch is a job's volume at /tmp. It is removed together with the job.
	kindScratch = "scratch"
	// kindAutoCreated is a volume that the engine created because a home was missing.
	kindAutoCreated = "accident"
)

// Docker implements [backend.Backend] on one engine. It is safe for concurrent use, and
// several processes may use the same installation at once: they synchronise through
// the engine alone.
type Docker struct {
	api  *engine.Client
	opts Options
	net  *bridge.Network
	// jobs is the network of storage jobs, or nil if it is the one that the options name.
	jobs *bridge.Network
	// guard has the firewall rules of both networks made.
	guard *firewall.Guard
	// pruning is held while this process removes a volume: the engine refuses two at once.
	pruning chan struct{}
	// exits and outcomes cache how containers ended. That never changes, and every
	// listing includes ended containers until they are removed.
	exits    backend.Memo[exit]
	outcomes backend.Memo[workspace.Job]
	// reports caches what running jobs have printed.
	reports backend.Reports
	// owned are the homes that need no other owner, by the names of their volumes: with
	// which image, and of which operation.
	owned backend.Memo[string]
	// disk knows where the disk of the volumes is.
	disk diskProbe
	// asked are the commands of images that run in containers; see askImage.
	asked backend.Memo[string]
}

var _ backend.Backend = (*Docker)(nil)

// New returns a backend, or everything that is wrong with the options. It performs no
// I/O: the first call connects and negotiates the version of the API.
func New(o Options) (backend.Backend, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	api, err := engine.Connect(o.Host, o.Transport)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	name, chosen := o.network()
	subnet, _ := bridge.ParseSubnet(o.Subnet) // valid or empty
	net := bridge.New(api, name, chosen, subnet, LabelInstallation, o.Installation)
	d := &Docker{
		api: api, opts: o, pruning: make(chan struct{}, 1), net: net,
		disk: diskProbe{asking: make(chan struct{}, 1)},
	}
	jobs := o.jobs(api)
	if jobs != nil {
		d.jobs = jobs.Net
	}
	d.guard = firewall.New(o.Egress, net, jobs, newHelper(api, o))
	return d, nil
}

// Close implements [backend.Backend].
func (d *Docker) Close() error { return d.api.Close() }

// Identity implements [backend.Backend].
func (d *Docker) Identity(ctx context.Context) (string, error) { return d.api.Identity(ctx) }

// labels returns the labels of the workspace's object of that kind.
func (d *Docker) labels(id workspace.ID, kind string) map[string]string {
	return map[string]string{LabelInstallation: d.opts.Installation, LabelWorkspace: string(id), LabelKind: kind}
}

// owns reports whether have are the labels of the workspace's object of that kind.
// Only such an object may be used, changed or removed; its name alone says nothing
// (SPEC 12.8).
func (d *Docker) owns(have map[string]string, id workspace.ID, kind string) bool {
	for k, v := range d.labels(id, kind) {
		if have[k] != v {
			return false
		}
	}
	return true
}

// filter selects objects of this installation by kind and, for a few ids, by workspace
// or name; for many ids, one listing of the whole kind is cheaper. A filter may select
// too much, so callers check the labels of each result.
func (d *Docker) filter(kind string, ids []workspace.ID, name func(workspace.ID) string) filters.Args {
	const few = 16
	args := filters.NewArgs(
		filters.Arg("label", LabelInstallation+"="+d.opts.Installation),
		filters.Arg("label", LabelKind+"="+kind),
	)
	// Labels cannot be combined with "or", but names can. A label is exact; a name is a
	// regular expression, so name must anchor it.
	if len(ids) == 1 {
		args.Add("label", LabelWorkspace+"="+string(ids[0]))
	} else if len(ids) <= few && name != nil {
		for _, id := range ids {
			args.Add("name", name(id))
		}
	}
	return args
}

// selector returns a function that reports whether an id was asked for. Without ids
// it accepts every id.
func selector(ids []workspace.ID) func(workspace.ID) bool {
	if len(ids) == 0 {
		return func(workspace.ID) bool { return true }
	}
	set := make(map[workspace.ID]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return func(id workspace.ID) bool { _, ok := set[id]; return ok }
}

// inspect returns the container with that name or id, or nil if it does not exist.
func (d *Docker) inspect(ctx context.Context, name string) (*container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	c, err := d.api.ContainerInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, engine.Wrap("inspecting container "+name, err)
	}
	return &c, nil
}

// remove kills and removes the container, and returns when it is gone.
func (d *Docker) remove(ctx context.Context, containerID string) error {
	// RemoveVolumes removes anonymous volumes, never a home.
	err := d.api.ContainerRemove(ctx, containerID, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		// Another call is removing it already.
		done, failed := d.api.ContainerWait(ctx, containerID, container.WaitConditionRemoved)
		select {
		case <-done:
			err = nil
		case err = <-failed:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// undo removes a workspace's container that must not run, even if ctx has ended, and
// returns cause. If the removal fails too, the error names both: the next attempt finds
// the container and tries again. A volume that the engine has made together with the
// container goes too, now or at the next call.
func (d *Docker) undo(ctx context.Context, id workspace.ID, containerID string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := d.remove(ctx, containerID); err != nil {
		return fmt.Errorf("%w (and removing the container failed: %w)", cause, err)
	}
	_, _ = d.home(ctx, id)
	return cause
}
