package settings

// App are the settings of the app `codehub`: those of the whole installation.
type App struct {
	// Database is where PostgreSQL is, as a URL or as keywords and values. Required.
	// Write it as a placeholder, `{env.DATABASE_URL}`, because it holds a password.
	Database Value `json:"database,omitempty"`
	// Redis is where Redis is, as `redis://`, `rediss://` or `unix://` URL. Required.
	// Write it as a placeholder, `{env.REDIS_URL}`.
	Redis Value `json:"redis,omitempty"`
	// Where people sign in, and where workspaces are.
	Site
	// PublicURL is the address of the main site as people open it, such as
	// `https://codehub.example.com`, without a path. Workspaces learn their own addresses
	// from it. Default: main_host, with http on this machine and https elsewhere; empty
	// without main_host.
	PublicURL Value `json:"public_url,omitempty"`
	// WorkspacePorts is whether the other ports of a workspace have hosts, too:
	// `{port}--ws-{id}.{domain}`, each an origin of its own, for its owner. Default: true.
	WorkspacePorts Value `json:"workspace_ports,omitempty"`
	// SharePorts allows another process to listen where this one does. Without it Caddy
	// does not start then: each would answer half of the requests for both. Set it only
	// while a process of the same installation takes over from another. Default: false.
	SharePorts Value `json:"share_ports,omitempty"`
	// Installation tells apart the containers, volumes and networks of several
	// installations that share a container engine. Changing it later orphans what
	// exists. Default: `codehub`.
	Installation Value `json:"installation,omitempty"`
	// AdminPassword is the password of the user `admin`. When it is set, the user is
	// created, or given this password, at every start, and in a reload that changes it.
	// Default: no such user is created.
	AdminPassword Value `json:"admin_password,omitempty"`
	// SessionTTL is how long a sign-in lasts. Default: 336h.
	SessionTTL Value `json:"session_ttl,omitempty"`
	// AuditRetention is for how long the audit is kept, which says who asked for what: at least `1d`; 0 is
	// for good. Default: `365d`.
	AuditRetention Value `json:"audit_retention,omitempty"`
	// Brand says whose installation the pages are of.
	Brand Brand `json:"brand,omitzero"`
	// SignIn says how people sign in.
	SignIn SignIn `json:"sign_in,omitzero"`
	// OIDC is an OpenID Connect provider through which people may sign in.
	OIDC OIDC `json:"oidc,omitzero"`
	// Identity takes the signed-in user from another authentication of Caddy's.
	Identity Identity `json:"identity,omitzero"`
	// S3 is the object store for the archives.
	S3 S3 `json:"s3,omitzero"`
	// HomeWarn is the size of a home, such as `20GiB`, from which on its owner is told that
	// it is large, and the log says so once; 0 is never. Nothing is refused because of it:
	// `docker home` limits homes. Default: 0.
	HomeWarn Value `json:"home_warn,omitempty"`
	// DiskPressure says what happens as the disk of the homes fills up.
	DiskPressure DiskPressure `json:"disk_pressure,omitzero"`
	// MemoryPressure is how much of the memory of the engine's host is in use, such as `90%`, when
	// the workspaces that have dozed longest are put to sleep before their time, a few at once, until it is
	// 5 % below; `off` for never. It is the same when something waits for memory for 10 % of the time.
	// Of an engine on another host only the memory of its workspaces is known. On Kubernetes this has no
	// effect. Default: 90%.
	MemoryPressure Value `json:"memory_pressure,omitempty"`
	// Encryption encrypts the archives.
	Encryption Encryption `json:"encryption,omitzero"`
	// Images are those that users choose from when they create a workspace; the first one is
	// the default. Only administrators may run any other. Default: one with the name
	// `default`, of the backend's workspace_image.
	Images []Image `json:"images,omitempty"`
	// Backend is what workspaces run on: `docker` or `kubernetes`. Only that one may have
	// settings. Default: `docker`.
	Backend string `json:"backend,omitempty"`
	// Kubernetes are the settings of that backend.
	Kubernetes Kubernetes `json:"kubernetes,omitzero"`
	// Docker are the settings of that backend.
	Docker Docker `json:"docker,omitzero"`
	// Egress says what workspaces reach besides the internet.
	Egress Egress `json:"egress,omitzero"`
	// Coordinator is the rhythm of the background work.
	Coordinator Coordinator `json:"coordinator,omitzero"`
	// TTL says when unused workspaces are put away.
	TTL TTL `json:"ttl,omitzero"`
	// Work says what counts as work in an unused workspace, and keeps it awake.
	Work Work `json:"work,omitzero"`
	// ActivityMode is what counts as use of a workspace. With `presence`, a script in its
	// pages reports what people do there, and what such pages send by themselves does not
	// count. With `traffic`, everything counts, so an open tab keeps its workspace awake.
	// Default: `presence`.
	ActivityMode Value `json:"activity,omitempty"`
	// ActivityFlushInterval is how often this process writes to Redis which
	// workspaces were used. It must be well below the standby TTL. Default: 30s, or a
	// quarter of the standby TTL when that is less.
	ActivityFlushInterval Value `json:"activity_flush_interval,omitempty"`
	// Limits bound how many workspaces run at once.
	Limits Limits `json:"limits,omitzero"`
	// RedisChannels are the prefixes of the Redis channels.
	RedisChannels Channels `json:"redis_channels,omitzero"`
	// RouteLease is for how long running workspaces are reached without a confirmation of
	// their addresses by PostgreSQL, and so how long it may be away without disturbing
	// their users; then requests are held. The address of a workspace that has stopped
	// rests for as long and a minute. The same for all processes. Default: `10m`.
	RouteLease Value `json:"route_lease,omitempty"`
	// SSEHeartbeatInterval is how often an idle event stream sends a heartbeat, and
	// checks that its session still holds. Default: 30s.
	SSEHeartbeatInterval Value `json:"sse_heartbeat_interval,omitempty"`
	// Timeouts say how long an operation may take (SPEC 3).
	Timeouts Timeouts `json:"timeouts,omitzero"`

	warnings []string // about what was read
}
