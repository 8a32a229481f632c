package settings

// S3 is the object store of the archives.
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
	// installation, and the garbage collector deletes archives there that no workspace
	// needs. Default: `archives/`.
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
	// Verify is how an upload is proven before the archive counts and its volume may be
	// deleted: `full` reads it back and compares every entry; `checksum` compares what the
	// store reports of it, which costs nothing and trusts the store. Default: `full`.
	Verify Value `json:"verify,omitempty"`
	// CA is a file with certificates in PEM that the store's may be signed with, besides
	// those that the system trusts. It is read at the start and with every reload.
	CA Value `json:"ca,omitempty"`
	// SSE is what the store is asked to encrypt archives with: `s3` for keys of its own,
	// `kms` for the default key of its key service, or `kms` and the id of a key there.
	// Default: what the bucket says.
	SSE Value `json:"sse,omitempty"`
}

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
	// host, as Docker Desktop needs. Default: `none`.
	Publish Value `json:"publish,omitempty"`
	// PublishPorts are the ports that `publish loopback` uses. Default: `42000-44999`.
	PublishPorts Value `json:"publish_ports,omitempty"`
	// WorkspaceImage is the image of workspaces that have no image of their own, where no
	// images are configured. Default:
	// `codercom/code-server:4.139.1`.
	WorkspaceImage Value `json:"workspace_image,omitempty"`
	// WorkspacePort is the port that the application inside a workspace listens on, unless
	// its image says another.
	// Default: 8080.
	WorkspacePort Value `json:"workspace_port,omitempty"`
	// JobImage is the image of storage jobs. Default: `codehub/storagejob:0.1.0`.
	JobImage Value `json:"job_image,omitempty"`
	// Memory is the most memory a workspace may use, such as `2GiB`; 0 is unlimited.
	// Default: 2GiB.
	Memory Value `json:"memory,omitempty"`
	// CPUs is the most processors a workspace may use, such as `0.5`; 0 is unlimited.
	// Default: 2.
	CPUs Value `json:"cpus,omitempty"`
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

// Coordinator is the intervals and limits of the background work.
type Coordinator struct {
	// NodeID names this process among those that share the database. Default: the
	// host's name.
	NodeID Value `json:"node_id,omitempty"`
	// LockID is the number of the advisory lock in PostgreSQL that makes one process
	// the leader. All processes of an installation use the same. Default: 12345.
	LockID Value `json:"lock_id,omitempty"`
	// Shards is into how many parts the workspaces are divided. Each has a leader of its
	// own, so several processes share the work. All processes of an installation should
	// have the same number: while they differ, only those with the smallest lead. A reload
	// that changes it is refused; restart the processes, one after the other. Default: 1.
	Shards Value `json:"shards,omitempty"`
	// RetryInterval is how often a process that does not lead tries to become the leader.
	// Default: 5s.
	RetryInterval Value `json:"retry_interval,omitempty"`
	// IdleInterval is the time between two observations of all workspaces while nothing
	// happens. Default: 15s.
	IdleInterval Value `json:"idle_interval,omitempty"`
	// ActiveInterval is the same while an operation is in progress. Default: 1s.
	ActiveInterval Value `json:"active_interval,omitempty"`
	// TTLInterval is the time between two searches for expired workspaces. Default: 60s.
	TTLInterval Value `json:"ttl_interval,omitempty"`
	// GCInterval is the time between two garbage collections of archives. Default: 4h.
	GCInterval Value `json:"gc_interval,omitempty"`
	// GCDelay is how long an archive that no workspace needs is kept after it was first
	// seen. A deleted workspace can be restored for that long. Default: 2h.
	GCDelay Value `json:"gc_delay,omitempty"`
	// GCMaxShare is the largest share of all archives that one garbage collection may
	// delete, above 0 and at most 1. A larger share looks like a wrong or restored
	// database: nothing is deleted then. Default: 0.5.
	GCMaxShare Value `json:"gc_max_share,omitempty"`
	// GCUploadExpiry is the age from which the parts of an unfinished upload are removed.
	// It must be longer than any upload takes. Default: 24h.
	GCUploadExpiry Value `json:"gc_upload_expiry,omitempty"`
	// KeepArchives is how many archives of each workspace are kept, the current one among
	// them: the last ones by their dates, 1 to 1000. With fewer than before, the rest is
	// removed after gc_delay. Default: 1.
	KeepArchives Value `json:"keep_archives,omitempty"`
	// Scrub is how much of the archives is read back in a day, to find damage before anybody
	// needs them, such as `20GiB`; 0 reads nothing back. Default: 20GiB.
	Scrub Value `json:"scrub,omitempty"`
	// MaxConcurrent is how many actions on containers, volumes and archives may run
	// at the same time. Default: 10.
	MaxConcurrent Value `json:"max_concurrent,omitempty"`
	// MaxJobs is how many storage jobs may run at the same time, in the whole installation:
	// what archives and restores homes. With more than one, one place is kept for what a person
	// waits for. Each takes up to `job_memory` (512MiB), and on Docker all use one disk.
	// Processes that share the work (shards) may exceed it by a few for a moment. Default: 4.
	MaxJobs Value `json:"max_jobs,omitempty"`
	// MaxRetry is how many times in a row an operation may fail before the workspace is
	// in ERROR. Default: 3.
	MaxRetry Value `json:"max_retry,omitempty"`
	// StableAfter is how long a container must have run for its end not to count as a
	// crash. Default: 1m.
	StableAfter Value `json:"stable_after,omitempty"`
	// OperationLimit is the longest that an operation may take in all, also while it gets
	// on; the timeouts count from its last progress. Default: 24h.
	OperationLimit Value `json:"operation_limit,omitempty"`
	// WaitLimit is how long a workspace whose files are only in the object store waits
	// while the store refuses to hand them out, before it is in ERROR. Default: 10m.
	WaitLimit Value `json:"wait_limit,omitempty"`
	// MaxLossShare is the largest share of at least 4 workspaces that may be found to have
	// lost their files at once, above 0 and at most 1. A larger share looks like a
	// container engine or an object store that is not the right one: none of them changes
	// its state then. Default: 0.5.
	MaxLossShare Value `json:"max_loss_share,omitempty"`
	// HistoryRetention is how long the history of workspaces is kept. Default: 720h.
	HistoryRetention Value `json:"history_retention,omitempty"`
}

// TTL says when unused workspaces are stopped and archived.
type TTL struct {
	// Standby is how long a running workspace may be unused before its container is
	// removed; its volume stays. Default: 600s.
	Standby Value `json:"standby,omitempty"`
	// Archive is how long a stopped workspace keeps its volume before its files are moved
	// to the object store. Default: 1800s.
	Archive Value `json:"archive,omitempty"`
	// KeepAwakeMax is for how long people may keep a workspace awake that nobody uses; 0
	// refuses it. Default: 8h.
	KeepAwakeMax Value `json:"keep_awake_max,omitempty"`
}

// Limits bound how many workspaces there are and run, and how many requests wait
// for them.
type Limits struct {
	// MaxRunningPerUser bounds the workspaces of one user that run or are about to.
	// Default: 2.
	MaxRunningPerUser Value `json:"max_running_per_user,omitempty"`
	// MaxRunningGlobal bounds those of all users together. Default: 100.
	MaxRunningGlobal Value `json:"max_running_global,omitempty"`
	// MaxHeld bounds the requests of this process that wait for workspaces to wake; one
	// user's take at most a tenth. Further ones get status 503. Default: 1000.
	MaxHeld Value `json:"max_held,omitempty"`
	// MaxWorkspacesPerUser bounds the workspaces that a user has, in any state but deleted;
	// 0 is unlimited. Default: 100.
	MaxWorkspacesPerUser Value `json:"max_workspaces_per_user,omitempty"`
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
