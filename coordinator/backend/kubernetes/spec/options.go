package spec

import (
	"cmp"
	"net/netip"
	"time"

	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/storagejob/contract"
)

// Defaults of [Options].
const (
	DefaultPort = 8080
	// DefaultJobImage has the tag of this release. Nodes keep what they have fetched under a name,
	// so one that floats would be another image on each.
	DefaultJobImage = contract.DefaultImage
	// DefaultMemoryRequest, DefaultHome, DefaultJobMemory and DefaultJobScratch are in bytes,
	// DefaultCPURequest is in billionths of a processor. A job takes at most 128 MiB itself;
	// the page cache counts as well. Its scratch folder holds the parts of an archive under
	// way, 16 MiB each for a small one and 4 GiB each for the largest.
	DefaultMemoryRequest = 512 << 20
	DefaultCPURequest    = 100_000_000
	DefaultHome          = 10 << 30
	DefaultJobMemory     = 512 << 20
	DefaultJobScratch    = 20 << 30
	// DefaultUser is the user and the group of workspaces, and the owner of their homes.
	DefaultUser = 1000
	// DefaultAccessMode works with every storage class.
	DefaultAccessMode = "ReadWriteOnce"
	// DefaultGatewayPods are the labels of the gateway's Pods, and DefaultDNSNamespace is
	// where the cluster's name servers are.
	DefaultGatewayPods  = "app.kubernetes.io/name=codehub"
	DefaultDNSNamespace = "kube-system"
)

// Options are the settings that shape an installation's objects. Lists are separated by
// spaces or commas.
type Options struct {
	// Installation separates the objects of several installations in one namespace. It must
	// not change while there are workspaces: they would not be found again.
	Installation string
	// Image is the image of workspaces that do not name one, Port the port at which
	// workspaces serve HTTP; default [DefaultPort].
	Image string
	Port  int
	// JobImage is the image of storage jobs. Default [DefaultJobImage].
	JobImage string
	// ImagePullSecrets are names of Secrets in the namespace with which nodes fetch images.
	ImagePullSecrets string

	// MemoryBytes, NanoCPUs (billionths of a processor) and DiskBytes (outside the home)
	// limit each workspace. 0 means no limit. How many processes it may have is a setting of
	// the nodes.
	MemoryBytes, NanoCPUs, DiskBytes int64
	// MemoryRequestBytes and NanoCPUsRequest are what the scheduler keeps free for each
	// workspace. Default: [DefaultMemoryRequest] and [DefaultCPURequest], and never above the
	// limit.
	MemoryRequestBytes, NanoCPUsRequest int64
	// StopGrace is how long a workspace's container may take to end after SIGTERM (SPEC 7). Kubernetes counts whole seconds: it is
	// rounded up, and at least one.
	StopGrace time.Duration
	// User and Group run the workspaces' processes, and the home belongs to the group.
	// Default [DefaultUser].
	User, Group int64
	// BusyCommand is a command, in the form of a shell, that exits with 0 in a workspace
	// while it is busy. Kubernetes does not show the images' labels, which say it on Docker.
	BusyCommand string
	// PodTemplate is the text of a Pod template, in YAML or JSON, that is merged into
	// workspaces' Pods as Kubernetes merges patches ("strategic merge"). The workspace's
	// container has the name [Container].
	PodTemplate string

	// HomeBytes is the size of a home. A larger one than before makes the present homes grow
	// too; a smaller one changes new ones only. Default [DefaultHome].
	HomeBytes int64
	// StorageClass makes the homes; empty means the cluster's default. AccessMode is
	// ReadWriteOnce or ReadWriteOncePod. Default [DefaultAccessMode].
	StorageClass, AccessMode string

	// NodeSelector are labels, as name=value, that a node must have; Tolerations are taints
	// that it may have, as key=value:Effect, key:Effect or key. They and the classes
	// are for workspaces and storage jobs alike.
	NodeSelector, Tolerations   string
	PriorityClass, RuntimeClass string

	// JobMemoryBytes and JobNanoCPUs limit each storage job, JobScratchBytes its scratch
	// folder. Default: [DefaultJobMemory], no limit, [DefaultJobScratch].
	JobMemoryBytes, JobNanoCPUs, JobScratchBytes int64

	// GatewayPods are the labels, as name=value, of the gateway's Pods, and GatewayNamespace
	// is their namespace; empty means that of the workspaces. Default [DefaultGatewayPods], and
	// for a backend the namespace of the Pod that it runs in.
	GatewayPods, GatewayNamespace string
	// DNSNamespace is where the cluster's name servers are. Default [DefaultDNSNamespace].
	DNSNamespace string
	// Egress says what workspaces reach besides the internet, and from where a gateway
	// outside the cluster reaches them.
	Egress egress.Options
	// Store is the URL of the object store as jobs reach it; empty for Amazon's.
	Store string
	// StoreAddresses are what the name in Store, [Options.StoreName], stands for now.
	StoreAddresses []netip.Addr `json:"-"`
	// StoreEndpoints are what stands behind the store and is no Pod, see [Options.StoreService].
	StoreEndpoints []netip.AddrPort `json:"-"`
}

// withDefaults sets the default of every option that is not set.
func (o Options) withDefaults() Options {
	o.Port = cmp.Or(o.Port, DefaultPort)
	o.JobImage = cmp.Or(o.JobImage, DefaultJobImage)
	o.MemoryRequestBytes = cmp.Or(o.MemoryRequestBytes, DefaultMemoryRequest)
	o.NanoCPUsRequest = cmp.Or(o.NanoCPUsRequest, DefaultCPURequest)
	o.User, o.Group = cmp.Or(o.User, DefaultUser), cmp.Or(o.Group, DefaultUser)
	o.HomeBytes = cmp.Or(o.HomeBytes, DefaultHome)
	o.AccessMode = cmp.Or(o.AccessMode, DefaultAccessMode)
	o.JobMemoryBytes = cmp.Or(o.JobMemoryBytes, DefaultJobMemory)
	o.JobScratchBytes = cmp.Or(o.JobScratchBytes, DefaultJobScratch)
	o.GatewayPods = cmp.Or(o.GatewayPods, DefaultGatewayPods)
	o.DNSNamespace = cmp.Or(o.DNSNamespace, DefaultDNSNamespace)
	return o
}
