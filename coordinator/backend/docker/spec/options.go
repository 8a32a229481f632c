package spec

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/distribution/reference"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/storagejob/contract"
)

// Defaults of [Options].
const (
	DefaultPort = 8080
	// DefaultJobImage is the image of this release.
	DefaultJobImage   = contract.DefaultImage
	DefaultJobNetwork = "bridge"
	// DefaultPublishPorts are more ports than can be in use at once, because a port rests for some time after its use.
	DefaultPublishPorts = "42000-44999"
	// jobMemory limits each storage job, in bytes. A job itself takes at most 128 MiB, but the page cache counts as well.
	jobMemory = 512 << 20
	// DefaultWarm is the default of the setting for [Options.Warm].
	DefaultWarm = 20
	// MaxWarm leaves most of a Linux bridge's 1,023 places to running containers.
	MaxWarm = 500
)

// The values of [Options.Publish].
const (
	// PublishNone: the gateway reaches containers at their own addresses.
	PublishNone = "none"
	// PublishLoopback: the gateway reaches them at a port of 127.0.0.1, from [Options.PublishPorts].
	PublishLoopback = "loopback"
)

// Options are the settings of a Docker backend.
type Options struct {
	// Host is the engine's address, such as unix:///var/run/docker.sock. If it is empty, DOCKER_HOST and the other
	// variables of Docker's own tools apply. A proxy in front of an engine must forward whole connections, not single
	// requests. It must allow GET /info and GET /networks/none without a version in the path.
	Host string
	// Installation separates the objects of several installations on one engine. It must not change while there are
	// workspaces: they would not be found under the new name.
	Installation string
	// Image is the image of workspaces that do not name one.
	Image string
	// Port is the port at which workspaces serve HTTP. The default is [DefaultPort].
	Port int
	// JobImage is the image of storage jobs. The default is [DefaultJobImage].
	JobImage string
	// Network is the network of the workspaces' containers. If it does not exist, it is created as a bridge on which
	// containers cannot reach one another; an existing network is used unchanged. The default is
	// codehub-{Installation}.
	Network string
	// Subnet is the IPv4 subnet from which workspaces get their addresses, such as 10.213.0.0/16. A new network gets it
	// as its subnet. In an existing network that Network names, it must be an unused part of that network's subnet. The
	// default for a new network is a private /16 that overlaps with no other network. For an existing network there is
	// no default: the engine then chooses the addresses.
	Subnet string
	// PublishPorts are the ports of 127.0.0.1 for [PublishLoopback], as from-to. The default is [DefaultPublishPorts].
	PublishPorts string
	// JobNetwork is the network on which storage jobs reach the object store; "host" if the store listens on the
	// loopback interface. It is used unchanged. By default, if there are rules about what workspaces can reach, jobs
	// have a network of their own, on which they reach Store alone. Otherwise, and with [PublishLoopback], it is
	// [DefaultJobNetwork]: an engine in a virtual machine may know the store by other addresses than this process does.
	JobNetwork string
	// Store is the URL at which jobs reach the object store; empty means Amazon's.
	Store string
	// Publish is how the gateway reaches containers: [PublishNone] (default) or
	// [PublishLoopback], for engines in a virtual machine such as Docker Desktop.
	Publish string
	// MemoryBytes, PidsLimit and NanoCPUs (billionths of a processor) limit each workspace's container. 0 means no
	// limit.
	MemoryBytes, PidsLimit, NanoCPUs int64
	// StopGrace is how long the programs of a workspace have to end before its container is removed. 0 kills them
	// immediately.
	StopGrace time.Duration
	// Egress defines what workspaces can reach besides the internet.
	Egress egress.Options
	// Warm is how many sleeping workspaces keep their network, so that their next container starts sooner. These are the
	// ones that went to sleep last. 0 means none.
	Warm int
	// Kept, if set, is called after each attempt to keep the network of a sleeping workspace, with nil or the reason of
	// the failure. The context that it gets ends with the backend.
	Kept func(ctx context.Context, err error) `json:"-"`
	// DiskBytes limits what a workspace's container writes outside its home, and HomeBytes its home. 0 means no limit.
	// An engine that cannot enforce a limit starts nothing.
	DiskBytes, HomeBytes int64
	// Transport, if set, wraps the client's transport, for tests and tracing. It sees
	// every request except the question for the engine's id on each new connection. It
	// must be safe for concurrent use.
	Transport func(http.RoundTripper) http.RoundTripper `json:"-"`
}

// WithDefaults sets the default of every option that is not set. The rest of this package expects options with their
// defaults.
func (o Options) WithDefaults() Options {
	o.Port = cmp.Or(o.Port, DefaultPort)
	o.JobImage = cmp.Or(o.JobImage, DefaultJobImage)
	o.Publish = cmp.Or(o.Publish, PublishNone)
	if o.JobNetwork == "" && (!o.Egress.Active() || o.Publish == PublishLoopback) {
		o.JobNetwork = DefaultJobNetwork
	}
	o.PublishPorts = cmp.Or(o.PublishPorts, DefaultPublishPorts)
	return o
}

// networkForm is the form of a network's name.
var networkForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// minMemory is the smallest limit that an engine accepts, in bytes.
const minMemory = 6 << 20

// Validate reports in one error everything that is wrong with the options. It performs no I/O: a missing engine or
// image shows only in use.
func (o Options) Validate() error {
	o = o.WithDefaults()
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, setting.Errorf("docker "+name, format, args...))
	}
	if err := backend.CheckInstallation(o.Installation); err != nil {
		errs = append(errs, setting.Errorf("installation", "%w", err))
	}
	if o.Host != "" {
		if _, err := client.ParseHostURL(o.Host); err != nil {
			bad("host", "%q is not the address of a Docker engine: write unix:///run/docker.sock or tcp://host:2375",
				o.Host)
		}
	}
	for name, ref := range map[string]string{"workspace_image": o.Image, "job_image": o.JobImage} {
		if _, err := reference.ParseNormalizedNamed(ref); err != nil {
			bad(name, "%q is not an image: write name:tag", ref)
		}
	}
	if o.Port < 1 || o.Port > 65535 {
		bad("workspace_port", "%d must be from 1 to 65535", o.Port)
	}
	if o.Network != "" && (!networkForm.MatchString(o.Network) || o.Network == "host" || o.Network == "none") {
		bad("network", "%q must be the name of a network, and neither host nor none", o.Network)
	}
	if o.JobNetwork != "" && !networkForm.MatchString(o.JobNetwork) || o.JobNetwork == "none" {
		bad("job_network", "%q must be the name of a network, or host", o.JobNetwork)
	}
	if o.Publish != PublishNone && o.Publish != PublishLoopback {
		bad("publish", "%q must be %s, %s or a range of ports", o.Publish, PublishNone, PublishLoopback)
	}
	if o.Subnet != "" {
		if _, err := ParseSubnet(o.Subnet); err != nil {
			bad("subnet", "%w", err)
		}
	}
	if _, err := o.ports(); err != nil {
		bad("publish", "%w", err)
	}
	if o.MemoryBytes != 0 && o.MemoryBytes < minMemory {
		bad("memory", "%d bytes must be 0 for no limit, or at least %d", o.MemoryBytes, minMemory)
	}
	for name, n := range map[string]int64{"pids": o.PidsLimit, "cpus": o.NanoCPUs} {
		if n < 0 {
			bad(name, "must be 0 for no limit, or more")
		}
	}
	if o.Warm < 0 || o.Warm > MaxWarm {
		bad("warm", "%d must be from 0 for none to %d", o.Warm, MaxWarm)
	}
	if err := backend.CheckStopGrace(o.StopGrace); err != nil {
		bad("stop_grace", "%w", err)
	}
	return errors.Join(append(errs, o.Egress.Validate(), o.validateDisk())...)
}

// ChoosesAddresses reports whether containers get addresses by their slots. On the operator's network they do not,
// unless Subnet names an unused part of it.
func (o Options) ChoosesAddresses() bool {
	return o.Network == "" || o.Subnet != "" || o.Publish == PublishLoopback
}

// WorkspaceNetwork returns the name of the workspaces' network, and whether the operator chose it. A chosen network may
// lack labels.
func (o Options) WorkspaceNetwork() (name string, chosen bool) {
	if o.Network != "" {
		return o.Network, true
	}
	return strings.ToLower("codehub-" + o.Installation), false
}

// OwnJobNetwork returns the name of the storage jobs' own network, or "" if they are on [Options.JobNetwork]. No
// installation's workspaces can have a network of that name.
func (o Options) OwnJobNetwork() string {
	if o.JobNetwork != "" {
		return ""
	}
	return "codehub_jobs-" + o.Installation
}
