package settings

import (
	"fmt"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/archive"
)

// S3 is the object store for the archives.
type S3 struct {
	// Endpoint is the address of the object store as this process reaches it, such as
	// `http://127.0.0.1:9000`. Default: Amazon S3 of the region.
	Endpoint Value `json:"endpoint,omitempty"`
	// Region is the region that requests are signed for. Default: `us-east-1`.
	Region Value `json:"region,omitempty"`
	// Bucket is the bucket that holds the archives. It is created at the start if it
	// does not exist. Default: `codehub`.
	Bucket Value `json:"bucket,omitempty"`
	// Prefix is put in front of every archive's key. Everything below it belongs to this
	// installation: the garbage collector deletes archives there that no workspace needs. Default:
	// `archives/`.
	Prefix Value `json:"prefix,omitempty"`
	// PathStyle puts the bucket into the path instead of the host name, as most
	// self-hosted stores need. Default: true when endpoint is set, else false.
	PathStyle Value `json:"path_style,omitempty"`
	// AccessKey is the id of the key that signs requests. Write it as a placeholder,
	// `{env.S3_ACCESS_KEY}`, so that it is not stored with the configuration. Default:
	// the usual sources of Amazon's SDK.
	AccessKey Value `json:"access_key,omitempty"`
	// SecretKey is the secret of that key. Write it as a placeholder,
	// `{env.S3_SECRET_KEY}`.
	SecretKey Value `json:"secret_key,omitempty"`
	// JobEndpoint is the address of the object store as storage jobs reach it, when
	// that differs: inside a container, 127.0.0.1 is the container. Default: endpoint.
	JobEndpoint Value `json:"job_endpoint,omitempty"`
	// Verify is how an upload is verified before the archive counts and its volume may be deleted:
	// `full` reads it back and compares every entry; `checksum` compares the checksum that the
	// store reports, which costs nothing but trusts the store. Default: `full`.
	Verify Value `json:"verify,omitempty"`
	// CA is a file with PEM certificates that may sign the store's, besides those that the system
	// trusts. It is read at the start and at every reload.
	CA Value `json:"ca,omitempty"`
	// SSE is the key with which the store is asked to encrypt archives: `s3` for keys of its own,
	// `kms` for the default key of its key service, or `kms` and the id of a key there. Default:
	// the bucket's own setting.
	SSE Value `json:"sse,omitempty"`
}

// storeTable lists the settings of the object store.
func (a *App) storeTable(r *Resolved) []Setting {
	s, o, live := &a.S3, &r.Options.Archive, &r.Live.Archive
	return []Setting{
		{"s3 endpoint", &s.Endpoint, "", "", parse.Text(&o.Endpoint)},
		{"s3 region", &s.Region, archive.DefaultRegion, "", parse.Text(&o.Region)},
		{"s3 bucket", &s.Bucket, defaultBucket, "", parse.Text(&o.Bucket)},
		{"s3 prefix", &s.Prefix, archive.DefaultPrefix, "", parse.Text(&o.Prefix)},
		{"s3 path_style", &s.PathStyle, "", "", parse.Bool(&o.PathStyle)},
		{"s3 access_key", &s.AccessKey, "", "", parse.Text(&o.AccessKey)},
		{"s3 secret_key", &s.SecretKey, "", "", parse.Text(&o.SecretKey)},
		{"s3 job_endpoint", &s.JobEndpoint, "", "", parse.Text(&o.JobEndpoint)},
		{"s3 verify", &s.Verify, live.Verify, "", parse.Text(&live.Verify)},
		{"s3 ca", &s.CA, "", "", parse.Text(&r.storeCA)},
		{"s3 sse", &s.SSE, "", "", parse.Text(&o.SSE)},
	}
}

// TTL sets when unused workspaces are frozen, stopped and archived.
type TTL struct {
	// Doze is how long a running workspace may be unused before its container is frozen: it takes
	// no processor time, keeps its memory, terminals and connections, and resumes immediately when
	// a user returns. With 0, or a value of standby or more, none is frozen. It needs a Docker
	// engine that can freeze containers; on Kubernetes it has no effect. Default: 300s.
	Doze Value `json:"doze,omitempty"`
	// Standby is how long a running workspace may be unused before its container is
	// removed; its volume stays. Default: 600s.
	Standby Value `json:"standby,omitempty"`
	// Archive is how long a stopped workspace keeps its volume before its files are moved
	// to the object store. Default: 1800s.
	Archive Value `json:"archive,omitempty"`
	// KeepAwakeMax is how long a user may keep an unused workspace awake; 0 forbids it. Default: 8h.
	KeepAwakeMax Value `json:"keep_awake_max,omitempty"`
}

// Limits bound how many workspaces exist and run, and how many requests wait for them.
type Limits struct {
	// MaxRunningPerUser bounds one user's workspaces that run or are about to run. Dozing ones do
	// not count. Default: 2.
	MaxRunningPerUser Value `json:"max_running_per_user,omitempty"`
	// MaxRunningGlobal bounds the same for all users together. Default: 100.
	MaxRunningGlobal Value `json:"max_running_global,omitempty"`
	// MaxDozingPerUser bounds one user's workspaces that doze (ttl doze), and so keep their memory.
	// Beyond it workspaces keep running until they go to sleep. Default: 2.
	MaxDozingPerUser Value `json:"max_dozing_per_user,omitempty"`
	// MaxDozingGlobal bounds the same for all users together. Default: 100.
	MaxDozingGlobal Value `json:"max_dozing_global,omitempty"`
	// MaxHeld bounds the requests in this process that wait for workspaces to wake; one user gets
	// at most a tenth. Requests beyond it get status 503. Default: 1000.
	MaxHeld Value `json:"max_held,omitempty"`
	// MaxWorkspacesPerUser bounds the workspaces of a user, in any state but deleted; 0 is
	// unlimited. Default: 100.
	MaxWorkspacesPerUser Value `json:"max_workspaces_per_user,omitempty"`
}

// limitTable lists the settings that bound the workspaces and the requests that wait for them.
func (a *App) limitTable(r *Resolved) []Setting {
	l, live := &a.Limits, &r.Live
	number := func(name string, text *Value, dst *int) Setting {
		return Setting{"limits " + name, text, fmt.Sprint(*dst), "", parse.Integer(dst)}
	}
	return []Setting{
		number("max_running_per_user", &l.MaxRunningPerUser, &live.Limits.PerUser),
		number("max_running_global", &l.MaxRunningGlobal, &live.Limits.Global),
		number("max_dozing_per_user", &l.MaxDozingPerUser, &live.Limits.Dozing.PerUser),
		number("max_dozing_global", &l.MaxDozingGlobal, &live.Limits.Dozing.Global),
		number("max_workspaces_per_user", &l.MaxWorkspacesPerUser, &live.Limits.Workspaces),
		{"limits max_held", &l.MaxHeld, fmt.Sprint(live.MaxHeld), "", parse.Integer(&live.MaxHeld)},
	}
}

// Timeouts bound how long an operation may take before it counts as failed.
type Timeouts struct {
	// Starting bounds starting the container until it accepts traffic. Raise it for an image that
	// prepares for longer, such as one that clones a large repository. Default: 5m.
	Starting Value `json:"starting,omitempty"`
}

// Channels are the prefixes of the Redis channels; all processes of an
// installation use the same.
type Channels struct {
	// SSE is the prefix of the channels that carry changes to browsers. Default:
	// `codehub:sse`.
	SSE Value `json:"sse,omitempty"`
	// Wake is the prefix of the channels that wake the coordinator. Default:
	// `codehub:wake`.
	Wake Value `json:"wake,omitempty"`
}
