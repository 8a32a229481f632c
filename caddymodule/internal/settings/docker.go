package settings

import (
	"fmt"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// Docker says how workspaces run.
type Docker struct {
	// Host is the Docker engine, such as `unix:///run/docker.sock`. Default: what
	// Docker's own variables say, else the local engine.
	Host Value `json:"host,omitempty"`
	// Network is the network of the workspaces. It is created if it does not exist.
	// Default: `codehub-` and the installation's name.
	Network Value `json:"network,omitempty"`
	// Subnet is the part of IPv4 from which workspaces get their addresses, such as
	// `10.213.0.0/16`; addresses that were used rest for longer than route_lease. A network
	// that exists and that `network` names must contain it, and nothing else may use it.
	// Default: a private /16 that overlaps with no other network of the engine.
	Subnet Value `json:"subnet,omitempty"`
	// JobNetwork is the network of the storage jobs; the object store must be reachable
	// from it, and there are no rules for it. Default: `host` if the store listens on the
	// loopback interface, else a network of their own where `egress` makes rules and
	// `publish` is `none`, from which they reach the store alone, else `bridge`.
	JobNetwork Value `json:"job_network,omitempty"`
	// Publish is `none` when this process reaches containers by their own addresses,
	// or `loopback` to publish each workspace's port on 127.0.0.1 of the engine's
	// host, as Docker Desktop needs. A range such as `20000-29999` does that with other ports
	// than 42000-44999. Default: `none`.
	Publish Value `json:"publish,omitempty"`
	// Warm is how many workspaces that sleep keep their network on the engine, those that went to
	// sleep last: waking one takes half as long. Each takes 0.6 MB at first and 0.3 MB once it has settled,
	// as the engine counts it, and a process of the engine's of about 9 MB; 0 keeps none. Set 0 where the
	// engine's default runtime is gVisor, which may not let a container join the network of another. Default: 20.
	Warm Value `json:"warm,omitempty"`
	Workload
	// Pids is the most processes and threads a workspace may have; 0 is unlimited.
	// Default: 2048.
	Pids Value `json:"pids,omitempty"`
	// Disk is the most that a workspace may store outside its home, such as `10GiB`; 0 is
	// unlimited. It needs the storage driver overlay2 on xfs mounted with pquota, or zfs or
	// btrfs; where the engine cannot enforce it, no workspace starts. Default: 0.
	Disk Value `json:"disk,omitempty"`
	// Home is the most that a home may hold; 0 is unlimited. It is set when the volume is
	// made, and needs the engine's data folder on xfs mounted with pquota; where the engine
	// cannot enforce it, no home is made. Default: 0.
	Home Value `json:"home,omitempty"`
}

// Workload are the settings that every backend has: what runs in a workspace, what runs in a
// storage job, and how much of the machine a workspace may use.
type Workload struct {
	// WorkspaceImage is the image of workspaces that have no image of their own, where no
	// images are configured. Default: `codercom/code-server:4.139.1`.
	WorkspaceImage Value `json:"workspace_image,omitempty"`
	// WorkspacePort is the port that the application inside a workspace listens on, unless
	// its image says another. Default: 8080.
	WorkspacePort Value `json:"workspace_port,omitempty"`
	// JobImage is the image of storage jobs, of this release: another one is refused, and what
	// needs it waits. Default: `codehub/storagejob:0.1.0`.
	JobImage Value `json:"job_image,omitempty"`
	// Memory is the most memory a workspace may use, such as `2GiB`; 0 is unlimited. Half of it is the size of
	// `/dev/shm`, where what programs share counts as memory. With 0 that is half of the host's memory on Docker, and
	// what the cluster allows on Kubernetes. Default: 2GiB.
	Memory Value `json:"memory,omitempty"`
	// CPUs is the most processors a workspace may use, such as `0.5`; 0 is unlimited.
	// Default: 2.
	CPUs Value `json:"cpus,omitempty"`
	// StopGrace is how long the programs of a workspace may take to end before it sleeps, is archived or is deleted. They are
	// asked to end, and killed after that time. The wait is over as soon as the last one has ended. At most 1m; 0 kills at once.
	// Default: 3s.
	StopGrace Value `json:"stop_grace,omitempty"`
}

// workloadOptions are the options of a backend that a [Workload] is for.
type workloadOptions struct {
	image, jobImage *string
	port            *int
	memory, cpus    *int64
	stopGrace       *time.Duration
}

// table lists the settings for the backend of that name. Its values go to o.
func (w *Workload) table(engine string, o workloadOptions, check func(string) parse.Check) []Setting {
	name := func(option string) string { return engine + " " + option }
	return []Setting{
		{name("workspace_image"), &w.WorkspaceImage, defaultWorkspaceImage, "",
			parse.Text(o.image, check("workspace_image"))},
		{name("workspace_port"), &w.WorkspacePort, fmt.Sprint(spec.DefaultPort), "",
			parse.Integer(o.port, notZero(o.port), check("workspace_port"))},
		{name("job_image"), &w.JobImage, spec.DefaultJobImage, "", parse.Text(o.jobImage, check("job_image"))},
		{name("memory"), &w.Memory, defaultWorkspaceMemory, "", parse.Size(o.memory, check("memory"))},
		{name("cpus"), &w.CPUs, defaultWorkspaceCPUs, "", parse.CPUs(o.cpus, check("cpus"))},
		{name("stop_grace"), &w.StopGrace, backend.DefaultStopGrace.String(), "", parse.Duration(o.stopGrace, 0, check("stop_grace"))},
	}
}

// dockerTable lists the settings of Docker; see [App.Table].
func (a *App) dockerTable(r *Resolved, option func(string) parse.Check) []Setting {
	e, o := &a.Docker, &r.Options.Docker
	check := func(name string) parse.Check { return option("docker " + strings.ReplaceAll(name, "_", " ")) }
	of := workloadOptions{&o.Image, &o.JobImage, &o.Port, &o.MemoryBytes, &o.NanoCPUs, &o.StopGrace}
	return append(e.Workload.table("docker", of, check), []Setting{
		{"docker host", &e.Host, "", "", parse.Text(&o.Host, check("host"))},
		{"docker network", &e.Network, "", "", parse.Text(&o.Network, check("network"))},
		{"docker subnet", &e.Subnet, "", "", parse.Text(&o.Subnet, check("subnet"))},
		{"docker job_network", &e.JobNetwork, "", "", parse.Text(&o.JobNetwork, check("job network"))},
		{"docker publish", &e.Publish, spec.PublishNone, "", func(text string) error {
			o.Publish = text
			if strings.Contains(text, "-") {
				o.Publish, o.PublishPorts = spec.PublishLoopback, text
			}
			return check("publish")(text)
		}},
		{"docker warm", &e.Warm, fmt.Sprint(spec.DefaultWarm), "", parse.Integer(&o.Warm, check("warm"))},
		{"docker pids", &e.Pids, defaultWorkspacePids, "", parse.Integer(&o.PidsLimit, check("pids"))},
		{"docker disk", &e.Disk, "0", "", parse.Size(&o.DiskBytes, check("disk"))},
		{"docker home", &e.Home, "0", "", parse.Size(&o.HomeBytes, check("home"))},
	}...)
}
