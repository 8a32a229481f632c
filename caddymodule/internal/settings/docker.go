package settings

import (
	"fmt"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// Docker sets how workspaces run on Docker.
type Docker struct {
	// Host is the Docker engine, such as `unix:///run/docker.sock`. Default: Docker's own
	// variables, else the local engine.
	Host Value `json:"host,omitempty"`
	// Network is the network of the workspaces. It is created if it does not exist. Default:
	// `codehub-` followed by the installation's name.
	Network Value `json:"network,omitempty"`
	// Subnet is the IPv4 range from which workspaces get their addresses, such as `10.213.0.0/16`;
	// a used address is not reused for longer than route_lease. If the network named by `network`
	// already exists, it must contain this range, and nothing else may use the range. Default: a
	// private /16 that overlaps no other network of the engine.
	Subnet Value `json:"subnet,omitempty"`
	// JobNetwork is the network of the storage jobs; the object store must be reachable from it,
	// and no firewall rules apply to it. Default: `host` if the store listens on the loopback
	// interface; else, if `egress` makes rules and `publish` is `none`, a dedicated network from
	// which only the store is reachable; else `bridge`.
	JobNetwork Value `json:"job_network,omitempty"`
	// Publish is `none` when this process reaches containers by their own addresses, or `loopback`
	// to publish each workspace's port on 127.0.0.1 of the engine's host, as Docker Desktop needs.
	// A range such as `20000-29999` does the same with ports other than 42000-44999. Default:
	// `none`.
	Publish Value `json:"publish,omitempty"`
	// Warm is how many sleeping workspaces keep their network on the engine, those that went to sleep last:
	// waking one takes half as long. Each takes 0.6 MB at first and 0.3 MB later, as the engine counts it, plus a
	// process of the engine of about 9 MB; 0 keeps none. Set 0 if the engine's default runtime is gVisor, which
	// may not let a container join another's network. Default: 20.
	Warm Value `json:"warm,omitempty"`
	Workload
	// Pids is the maximum number of processes and threads of a workspace; 0 is unlimited. Default:
	// 2048.
	Pids Value `json:"pids,omitempty"`
	// Disk is the most that a workspace may store outside its home, such as `10GiB`; 0 is
	// unlimited. It needs the storage driver overlay2 on xfs mounted with pquota, or zfs or btrfs;
	// if the engine cannot enforce it, no workspace starts. Default: 0.
	Disk Value `json:"disk,omitempty"`
	// Home is the most that a home may hold; 0 is unlimited. It is set when the volume is created,
	// and needs the engine's data folder on xfs mounted with pquota; if the engine cannot enforce
	// it, no home is created. Default: 0.
	Home Value `json:"home,omitempty"`
}

// Workload holds the settings that all backends share: the images of workspaces and storage jobs,
// and how much of the machine a workspace may use.
type Workload struct {
	// WorkspaceImage is the image of workspaces if `images` configures none. Default:
	// `codercom/code-server:4.139.1`.
	WorkspaceImage Value `json:"workspace_image,omitempty"`
	// WorkspacePort is the port that the application inside a workspace listens on, unless its
	// image sets another. Default: 8080.
	WorkspacePort Value `json:"workspace_port,omitempty"`
	// JobImage is the image of storage jobs. It must be of this release: another one is refused,
	// and operations that need it wait. Default: `codehub/storagejob:0.1.0`.
	JobImage Value `json:"job_image,omitempty"`
	// Memory is the most memory a workspace may use, such as `2GiB`; 0 is unlimited. `/dev/shm` gets half of it, and
	// its content counts as memory. With 0, `/dev/shm` gets half of the host's memory on Docker, and as much as the
	// cluster allows on Kubernetes. Default: 2GiB.
	Memory Value `json:"memory,omitempty"`
	// CPUs is the number of processors a workspace may use, such as `0.5`; 0 is unlimited. Default:
	// 2.
	CPUs Value `json:"cpus,omitempty"`
	// StopGrace is how long the programs of a workspace may take to exit before it sleeps, is archived or is deleted.
	// They are asked to exit, and killed after this time; the wait ends as soon as all have exited. At most 1m; 0
	// kills them immediately. Default: 3s.
	StopGrace Value `json:"stop_grace,omitempty"`
}

// workloadOptions holds the options of a backend that a [Workload] sets.
type workloadOptions struct {
	image, jobImage *string
	port            *int
	memory, cpus    *int64
	stopGrace       *time.Duration
}

// table lists the settings for the backend of that name. Its values go to o.
func (w *Workload) table(engine string, o workloadOptions) []Setting {
	name := func(option string) string { return engine + " " + option }
	return []Setting{
		{name("workspace_image"), &w.WorkspaceImage, defaultWorkspaceImage, "",
			parse.Text(o.image)},
		{name("workspace_port"), &w.WorkspacePort, fmt.Sprint(spec.DefaultPort), "",
			parse.Integer(o.port, notZero(o.port))},
		{name("job_image"), &w.JobImage, spec.DefaultJobImage, "", parse.Text(o.jobImage)},
		{name("memory"), &w.Memory, defaultWorkspaceMemory, "", parse.Size(o.memory)},
		{name("cpus"), &w.CPUs, defaultWorkspaceCPUs, "", parse.CPUs(o.cpus)},
		{name("stop_grace"), &w.StopGrace, backend.DefaultStopGrace.String(), "", parse.Duration(o.stopGrace, 0)},
	}
}

// dockerTable lists the settings of Docker; see [App.Table].
func (a *App) dockerTable(r *Resolved) []Setting {
	e, o := &a.Docker, &r.Options.Docker
	of := workloadOptions{&o.Image, &o.JobImage, &o.Port, &o.MemoryBytes, &o.NanoCPUs, &o.StopGrace}
	return append(e.Workload.table("docker", of), []Setting{
		{"docker host", &e.Host, "", "", parse.Text(&o.Host)},
		{"docker network", &e.Network, "", "", parse.Text(&o.Network)},
		{"docker subnet", &e.Subnet, "", "", parse.Text(&o.Subnet)},
		{"docker job_network", &e.JobNetwork, "", "", parse.Text(&o.JobNetwork)},
		{"docker publish", &e.Publish, spec.PublishNone, "", func(text string) error {
			o.Publish = text
			if strings.Contains(text, "-") {
				o.Publish, o.PublishPorts = spec.PublishLoopback, text
			}
			return nil
		}},
		{"docker warm", &e.Warm, fmt.Sprint(spec.DefaultWarm), "", parse.Integer(&o.Warm)},
		{"docker pids", &e.Pids, defaultWorkspacePids, "", parse.Integer(&o.PidsLimit)},
		{"docker disk", &e.Disk, "0", "", parse.Size(&o.DiskBytes)},
		{"docker home", &e.Home, "0", "", parse.Size(&o.HomeBytes)},
	}...)
}
