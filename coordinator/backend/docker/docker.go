// Package docker runs workspaces and storage jobs on a Docker engine. It implements [backend.Backend] (SPEC 7).
//
// It owns the containers, volumes and networks with its installation's label. Only this package and the packages below
// it import Docker's SDK. It must not decide what runs, nor touch anything else on the engine.
//
// Package spec describes the containers, home keeps the homes, network the networks and their firewall rules, sandbox
// the networks of sleeping workspaces, and ending stops programs. This package owns the order of operations: when a
// container may be created, and which others must not run beside it.
//
// Every object it creates has labels: the installation, the workspace, the kind of object, and for a job its operation.
// Names only find an object. The object's labels decide who owns it: an object without the right labels is neither
// listed nor changed nor removed (SPEC 12.8).
//
// When a container's volume does not exist, Docker creates an empty one together with the container. Containers are
// therefore created with a label for such a volume, and started only after an inspection has shown that their volume
// does not have that label. So a workspace never runs on an empty home instead of its lost one (SPEC 12.2).
package docker

import (
	"context"
	"net/netip"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/freezer"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/home"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/hostmemory"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/inspector"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/network"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sampler"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sandbox"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// Options are the settings of a Docker backend.
type Options = spec.Options

// homes implements Volumes, Provision, DeleteVolume, Usage and Disk of [backend.Core].
type homes = home.Volumes

// Docker implements [backend.Core] on one engine. It is safe for concurrent use. Several processes may use the same
// installation at once: they synchronise through the engine alone.
type Docker struct {
	*homes // the methods about volumes

	api  *engine.Client
	opts spec.Options
	net  *network.Network
	// jobs is the network of storage jobs, or nil if the options name one.
	jobs *network.Network
	// guard applies the firewall rules of both networks.
	guard   *network.Guard
	images  *image.Store
	sampler *sampler.Sampler
	// sandboxes keep the networks of workspaces that went to sleep recently.
	sandboxes *sandbox.Sandboxes
	freezer   *freezer.Freezer
	memory    *hostmemory.Host
	inspector *inspector.Inspector
	// outcomes caches how jobs ended, and reports the output of running jobs.
	outcomes backend.Outcomes
	reports  backend.Reports
}

// New returns a backend, or an error with everything that is wrong with the options. It performs no I/O: the first call
// connects and negotiates the API version.
func New(o Options) (backend.Backend, error) {
	if err := o.Validate(); err != nil {
		return backend.Backend{}, err
	}
	api, err := engine.Connect(o.Host, o.Transport)
	if err != nil {
		return backend.Backend{}, err
	}
	o = o.WithDefaults()
	guard := network.New(api, o)
	d := &Docker{
		api: api, opts: o, net: guard.Workspaces, jobs: guard.Jobs, guard: guard,
		homes: home.New(api, o), images: image.New(api, o), sampler: sampler.New(api),
		inspector: inspector.New(api), memory: hostmemory.New(api, o),
	}
	d.sandboxes = sandbox.New(api, o, d.homes.Volumes, func(ctx context.Context) (string, error) {
		id, _, err := d.net.Ensure(ctx)
		return id, err
	})
	d.freezer = freezer.New(api, o, d.inspector.Restarted)
	b := backend.Backend{Core: d, Images: d.images, KeepIsolated: d.guard.Keep, Freezer: d.freezer,
		Memory: d.memory.Memory, LocalHomes: true, OnePort: o.Publish == spec.PublishLoopback}
	if o.ChoosesAddresses() {
		b.Addresses = d.addresses
	}
	return b, nil
}

// Close implements [backend.Core].
func (d *Docker) Close() error {
	d.sandboxes.Close()
	return d.api.Close()
}

// Identity implements [backend.Core].
func (d *Docker) Identity(ctx context.Context) (string, error) { return d.api.Identity(ctx) }

// addresses is Addresses of [backend.Backend]. It creates the network if necessary.
func (d *Docker) addresses(ctx context.Context) (backend.Pool, error) {
	if d.opts.Publish == spec.PublishLoopback {
		return d.opts.Addresses(netip.Prefix{})
	}
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	_, subnet, err := d.net.Ensure(ctx)
	if err != nil {
		return backend.Pool{}, err
	}
	return d.opts.Addresses(subnet)
}
