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
	// DefaultJobImage has the tag of this release. A node keeps the image that it once pulled under a name. With a
	// floating tag, the nodes would therefore run different images.
	DefaultJobImage = contract.DefaultImage
	// DefaultMemoryRequest, DefaultHome, DefaultJobMemory and DefaultJobScratch are in bytes, DefaultCPURequest is in
	// billionths of a processor. A job itself takes at most 128 MiB; the page cache counts as well. Its scratch folder
	// holds the parts of an archive in progress, 16 MiB each for a small archive and 4 GiB each for the largest.
	DefaultMemoryRequest = 512 << 20
	DefaultCPURequest    = 100_000_000
	DefaultHome          = 10 << 30
	DefaultJobMemory     = 512 << 20
	DefaultJobScratch    = 20 << 30
	// DefaultUser is the user and the group of workspaces, and the owner of their homes.
	DefaultUser = 1000
	// DefaultAccessMode works with every storage class.
	DefaultAccessMode = "ReadWriteOnce"
	// DefaultGatewayPods are the labels of the gateway's Pods, and DefaultDNSNamespace is the namespace of the
	// cluster's name servers.
	DefaultGatewayPods  = "app.kubernetes.io/name=codehub"
	DefaultDNSNamespace = "kube-system"
)

// Options are the settings that shape an installation's objects. Lists are separated by
// spaces or commas.
type Options struct {
	// Installation separates the objects of several installations in one namespace. It must not change while there are
	// workspaces: the new name would not find them.
	Installation string
	// Image is the image of workspaces that do not name one. Port is the port at which workspaces serve HTTP. The
	// default is [DefaultPort].
	Image string
	Port  int
	// JobImage is the image of storage jobs. The default is [DefaultJobImage].
	JobImage string
	// ImagePullSecrets are names of Secrets in the namespace with which nodes pull images.
	ImagePullSecrets string

	// MemoryBytes, NanoCPUs (billionths of a processor) and DiskBytes (outside the home) limit each workspace. 0 means
	// no limit. The limit on the number of its processes is a setting of the nodes.
	MemoryBytes, NanoCPUs, DiskBytes int64
	// MemoryRequestBytes and NanoCPUsRequest are what the scheduler reserves for each workspace. The defaults are
	// [DefaultMemoryRequest] and [DefaultCPURequest], but never above the limit.
	MemoryRequestBytes, NanoCPUsRequest int64
	// StopGrace is how much time a workspace's container is given to end after SIGTERM (SPEC 7). Kubernetes counts
	// whole seconds: it is rounded up, to at least one.
	StopGrace time.Duration
	// User and Group run the workspaces' processes, and the home belongs to the group. The default is [DefaultUser].
	User, Group int64
	// BusyCommand is a shell command that exits with 0 in a workspace while the workspace is busy. On Docker a label of
	// the image names the command, but Kubernetes does not show labels of images.
	BusyCommand string
	// PodTemplate is the text of a Pod template, in YAML or JSON, that is merged into workspaces' Pods as a strategic
	// merge patch. The workspace's container has the name [Container].
	PodTemplate string

	// HomeBytes is the size of a home. If the setting is raised, existing homes grow, too. If it is lowered, only new
	// homes are smaller. The default is [DefaultHome].
	HomeBytes int64
	// StorageClass is the class of the homes; empty means the cluster's default. AccessMode is ReadWriteOnce or
	// ReadWriteOncePod. The default is [DefaultAccessMode].
	StorageClass, AccessMode string

	// NodeSelector are labels, as name=value, that a node must have. Tolerations are taints that it may have, as
	// key=value:Effect, key:Effect or key. These and the classes apply to workspaces and storage jobs alike.
	NodeSelector, Tolerations   string
	PriorityClass, RuntimeClass string

	// JobMemoryBytes and JobNanoCPUs limit each storage job, and JobScratchBytes its scratch folder. The defaults are
	// [DefaultJobMemory], no limit, and [DefaultJobScratch].
	JobMemoryBytes, JobNanoCPUs, JobScratchBytes int64

	// GatewayPods are the labels, as name=value, of the gateway's Pods, and GatewayNamespace is their namespace; empty
	// means that of the workspaces. The default labels are [DefaultGatewayPods]. A backend's default namespace is that
	// of its own Pod.
	GatewayPods, GatewayNamespace string
	// DNSNamespace is the namespace of the cluster's name servers. The default is [DefaultDNSNamespace].
	DNSNamespace string
	// Egress defines what workspaces can reach besides the internet. It also defines from which addresses a gateway
	// outside the cluster reaches them.
	Egress egress.Options
	// Store is the URL under which jobs reach the object store; empty means Amazon's.
	Store string
	// StoreAddresses are the current addresses of the name in Store, [Options.StoreName].
	StoreAddresses []netip.Addr `json:"-"`
	// StoreEndpoints are the store's endpoints that are not Pods, see [Options.StoreService].
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
