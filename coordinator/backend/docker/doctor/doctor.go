// Package doctor checks a Docker engine for `caddy codehub doctor`: whether the engine answers, what workspaces can
// reach, and whether the engine enforces the configured limits.
//
// It owns the table of these checks ([Doctor.Checks]), and the meaning and remedy of each finding. It must not change
// anything but its own short-lived containers and volumes.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	dockernetwork "github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/home"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/network"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/storagejob/contract"
)

// metadataAddress is the address from which a cloud gives a machine its secrets.
const metadataAddress = "169.254.169.254:80"

// Doctor examines an engine. Its methods fail when the engine does not answer.
type Doctor struct {
	api    *engine.Client
	opts   spec.Options
	guard  *network.Guard
	homes  *home.Volumes
	images *image.Store
	name   string // of the workspaces' network
}

// New returns a doctor for the engine that the options name. It performs no I/O.
func New(o spec.Options) (*Doctor, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	api, err := engine.Connect(o.Host, o.Transport)
	if err != nil {
		return nil, err
	}
	o = o.WithDefaults()
	name, _ := o.WorkspaceNetwork()
	return &Doctor{
		api: api, opts: o, name: name, homes: home.New(api, o), images: image.New(api, o),
		guard: network.New(api, o),
	}, nil
}

// Close releases connections.
func (d *Doctor) Close() error { return d.api.Close() }

// Engine is an engine's description of itself.
type Engine struct {
	Version, Driver string
	// Now is the engine's clock, or zero if unknown.
	Now time.Time
	// Rootless engines, and engines in a virtual machine, have their own network.
	Rootless bool
}

// Identity returns the engine's identity as the installation records it (SPEC 2).
func (d *Doctor) Identity(ctx context.Context) (string, error) { return d.api.Identity(ctx) }

// Engine asks the engine to describe itself.
func (d *Doctor) Engine(ctx context.Context) (Engine, error) {
	info, err := d.api.Info(ctx)
	if err != nil {
		return Engine{}, engine.Wrap("asking the engine about itself", err)
	}
	now, _ := time.Parse(time.RFC3339Nano, info.SystemTime) // zero if it cannot be read
	return Engine{
		Version: info.ServerVersion, Driver: info.Driver, Now: now,
		Rootless: info.OperatingSystem == "Docker Desktop" || slices.Contains(info.SecurityOptions, "name=rootless"),
	}, nil
}

// MissingImages returns the configured images that the engine lacks.
func (d *Doctor) MissingImages(ctx context.Context) (missing []string, err error) {
	for _, ref := range []string{d.opts.Image, d.opts.JobImage} {
		_, err := d.api.ImageInspect(ctx, ref)
		if err != nil && !errdefs.IsNotFound(err) {
			return nil, engine.Wrap("looking for image "+ref, err)
		}
		if err != nil {
			missing = append(missing, ref)
		}
	}
	return missing, nil
}

// JobImage returns a [workspace.PendingError] if the engine has an image of storage jobs from another release.
func (d *Doctor) JobImage(ctx context.Context) error {
	err := d.images.CheckJobs(ctx, d.opts.JobImage)
	var missing *backend.MissingImageError
	if errors.As(err, &missing) {
		return nil // MissingImages reports a missing image
	}
	return err
}

// Network is the workspaces' network.
type Network struct {
	Name string
	// Exists is false until the first workspace starts.
	Exists bool
	// Ours means that CodeHub created the network.
	Ours bool
	// Isolated means that the engine keeps its containers from reaching one another.
	Isolated bool
	// Subnet is the IPv4 subnet, and Used how many of its addresses are in use.
	Subnet netip.Prefix
	Used   int
}

// Network examines the workspaces' network.
func (d *Doctor) Network(ctx context.Context) (Network, error) {
	found := Network{Name: d.name}
	n, err := d.api.NetworkInspect(ctx, d.name, dockernetwork.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, engine.Wrap("inspecting network "+d.name, err)
	}
	found.Exists, found.Ours = true, n.Labels[spec.LabelInstallation] == d.opts.Installation
	found.Isolated = n.Options["com.docker.network.bridge.enable_icc"] == "false"
	found.Used = len(n.Containers)
	for _, c := range n.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil && p.Addr().Is4() {
			found.Subnet = p
		}
	}
	return found, nil
}

// Egress is the state of the rules about what workspaces can reach.
type Egress struct {
	// None means that there is no network yet, and so no rules.
	None bool
	// Stand means that the rules are in force. Decided means that the rules were in force on this engine before, so that
	// no workspace starts without them.
	Stand, Decided bool
	// Nameservers are the name servers that the rules allow.
	Nameservers []netip.Addr
	// Unable is why the engine cannot have rules, or nil if it can.
	Unable error
}

// Egress examines the rules about what workspaces can reach.
func (d *Doctor) Egress(ctx context.Context) (Egress, error) {
	decided, err := d.guard.Decided(ctx)
	if err != nil {
		return Egress{}, err
	}
	e := Egress{Decided: decided}
	if n, err := d.Network(ctx); err != nil || !n.Exists {
		e.None = true
		return e, err // asking for the rules would create the network
	}
	r, err := d.guard.Status(ctx)
	if errors.Is(err, contract.ErrUnable) {
		e.Unable = err
		return e, nil
	}
	e.Stand, e.Nameservers = r.Stood, r.Nameservers
	return e, err
}

// Reached tries, from a container on the workspaces' network, to reach addresses that must be closed, and returns those
// that were open. It tries the metadata service, other workspaces, and ports of the engine's host that containers
// publish. The network must exist.
func (d *Doctor) Reached(ctx context.Context) (open map[string]string, err error) {
	n, err := d.api.NetworkInspect(ctx, d.name, dockernetwork.InspectOptions{})
	if err != nil {
		return nil, engine.Wrap("inspecting network "+d.name, err)
	}
	targets := map[string]string{metadataAddress: "the metadata service of the cloud"}
	for _, c := range n.Containers {
		if p, err := netip.ParsePrefix(c.IPv4Address); err == nil {
			targets[net.JoinHostPort(p.Addr().String(), fmt.Sprint(d.opts.Port))] = "another container of " +
				"the network, " + c.Name
		}
	}
	for _, c := range n.IPAM.Config {
		for _, port := range []string{"22", "80", "443", "2019", "2375", "5432", "6379", "8080", "9000"} {
			if _, err := netip.ParseAddr(c.Gateway); err == nil {
				targets[net.JoinHostPort(c.Gateway, port)] = "port " + port + " of the engine's host"
			}
		}
	}
	addresses := make([]string, 0, len(targets))
	for a := range targets {
		addresses = append(addresses, a)
	}
	reached, err := d.guard.Probe(ctx, n.ID, addresses)
	open = make(map[string]string, len(reached))
	for _, a := range reached {
		open[a] = targets[a]
	}
	return open, err
}

// DiskLimit finds out whether the engine can enforce the disk limit of a workspace, by trying the configured limit or,
// if none is configured, some limit. If not, the error says why. It is [spec.ErrCannotLimit] for an engine without
// limits.
func (d *Doctor) DiskLimit(ctx context.Context) error {
	tried := d.opts
	tried.DiskBytes = cmp.Or(tried.DiskBytes, spec.MinDisk)
	driver, err := d.api.StorageDriver(ctx)
	if err == nil {
		err = tried.CheckDriver(driver)
	}
	if err != nil {
		return err
	}
	limit := spec.SizeOption(tried.DiskBytes)
	c, err := d.api.ContainerCreate(ctx, &container.Config{
		Image: d.opts.JobImage, Labels: d.opts.HelperLabels(spec.KindEgress),
	},
		&container.HostConfig{StorageOpt: limit}, nil, nil, "")
	if errdefs.IsNotFound(err) && d.images.Missing(ctx, d.opts.JobImage) {
		return &backend.MissingImageError{Image: d.opts.JobImage, Jobs: true}
	}
	if err != nil {
		return engine.Wrap("creating a container", spec.DiskRefused(limit, err))
	}
	return engine.Wrap("removing a container", d.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}))
}

// HomeLimit does the same for the limit of a home. It also returns how many homes have no limit.
func (d *Doctor) HomeLimit(ctx context.Context) (unlimited int, err error) {
	limit := cmp.Or(d.opts.HomeBytes, spec.MinDisk)
	v, err := d.api.VolumeCreate(ctx, volume.CreateOptions{
		Driver: "local", Labels: d.opts.HelperLabels(spec.KindEgress), DriverOpts: spec.SizeOption(limit),
	})
	if err != nil {
		return 0, engine.Wrap("creating a volume", spec.HomeRefused(limit, err))
	}
	if err := d.api.VolumeRemove(ctx, v.Name, false); err != nil {
		return 0, engine.Wrap("removing volume "+v.Name, err)
	}
	list, err := d.api.VolumeList(ctx, volume.ListOptions{Filters: d.opts.Filter(spec.KindHome, nil, nil)})
	if err != nil {
		return 0, engine.Wrap("listing volumes", err)
	}
	for _, v := range list.Volumes {
		if strings.HasSuffix(v.Name, "-home") && v.Options["size"] == "" {
			unlimited++
		}
	}
	return unlimited, nil
}

// Space returns how full the disk of the homes is.
func (d *Doctor) Space(ctx context.Context) (backend.Disk, error) { return d.homes.Disk(ctx) }

// Stranger is a workspace whose image's user cannot write to the home.
type Stranger struct {
	Container string
	// User is the user of its program, and Owner is the owner of the home. Each consists of the numbers of a user and a
	// group.
	User, Owner string
}

// Strangers examines the homes of at most limit running workspaces.
func (d *Doctor) Strangers(ctx context.Context, limit int) (found []Stranger, looked int, err error) {
	list, err := d.api.ContainerList(ctx, container.ListOptions{
		Limit: limit, Filters: d.opts.Filter(spec.KindWorkspace, nil, nil),
	})
	if err != nil {
		return nil, 0, engine.Wrap("listing containers", err)
	}
	for _, c := range list {
		full, err := d.api.ContainerInspect(ctx, c.ID)
		if errdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, looked, engine.Wrap("inspecting container "+c.ID, err)
		}
		a, err := d.homes.Access(ctx, c.ID, full.Config.User)
		if errdefs.IsNotFound(err) {
			continue // it has stopped since
		}
		if err != nil {
			return nil, looked, err
		}
		looked++
		if !a.Writable {
			found = append(found, Stranger{strings.TrimPrefix(full.Name, "/"), a.User, a.Owner})
		}
	}
	return found, looked, nil
}
