package settings

import (
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/events"
)

// App holds the settings of the app `codehub`, which apply to the whole installation.
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
	// SharePorts allows another process to listen where this one does. Otherwise Caddy does not
	// start when the port is taken, because each process would get half of the requests for both.
	// Set it only while one process of an installation takes over from another. Default: false.
	SharePorts Value `json:"share_ports,omitempty"`
	// Installation tells apart the containers, volumes and networks of several installations that
	// share a container engine. Changing it later orphans the existing ones. Default: `codehub`.
	Installation Value `json:"installation,omitempty"`
	// AdminPassword is the password of the user `admin`. When it is set, every start, and every
	// reload that changes it, creates the user or sets its password. Default: no such user is
	// created.
	AdminPassword Value `json:"admin_password,omitempty"`
	// SessionTTL is how long a sign-in lasts. Default: 336h.
	SessionTTL Value `json:"session_ttl,omitempty"`
	// AuditRetention is how long the entries of the audit log are kept: at least `1d`; 0 keeps them
	// forever. Default: `365d`.
	AuditRetention Value `json:"audit_retention,omitempty"`
	// Brand is the name, logo and color on the pages.
	Brand Brand `json:"brand,omitzero"`
	// SignIn says how people sign in.
	SignIn SignIn `json:"sign_in,omitzero"`
	// OIDC is an OpenID Connect provider through which people may sign in.
	OIDC OIDC `json:"oidc,omitzero"`
	// Identity takes the signed-in user from another authentication handler of Caddy.
	Identity Identity `json:"identity,omitzero"`
	// S3 is the object store for the archives.
	S3 S3 `json:"s3,omitzero"`
	// HomeWarn is the size, such as `20GiB`, at which the owner of a home is warned and the log
	// mentions it once; 0 never warns. It limits nothing: `docker home` does. Default: 0.
	HomeWarn Value `json:"home_warn,omitempty"`
	// DiskPressure sets what happens as the disk of the homes fills up.
	DiskPressure DiskPressure `json:"disk_pressure,omitzero"`
	// MemoryPressure is the share of the engine host's memory in use, such as `90%`, at which the
	// workspaces that have dozed longest are put to sleep early, a few at a time, until it is 5 % lower;
	// `off` disables this. The same happens when processes wait for memory 10 % of the time. For an engine
	// on another host, only the memory of its workspaces is known. On Kubernetes this has no effect.
	// Default: 90%.
	MemoryPressure Value `json:"memory_pressure,omitempty"`
	// Encryption encrypts the archives.
	Encryption Encryption `json:"encryption,omitzero"`
	// Images are the images that users can choose for a new workspace; the first one is the
	// default. Only administrators may use others. Default: one named `default`, with the backend's
	// workspace_image.
	Images []Image `json:"images,omitempty"`
	// Backend is what workspaces run on: `docker` or `kubernetes`. Settings of the other one are
	// refused. Default: `docker`.
	Backend string `json:"backend,omitempty"`
	// Kubernetes are the settings of that backend.
	Kubernetes Kubernetes `json:"kubernetes,omitzero"`
	// Docker are the settings of that backend.
	Docker Docker `json:"docker,omitzero"`
	// Egress sets what workspaces can reach besides the internet.
	Egress Egress `json:"egress,omitzero"`
	// Coordinator holds the intervals and limits of the background work.
	Coordinator Coordinator `json:"coordinator,omitzero"`
	// TTL sets when unused workspaces are frozen, stopped and archived.
	TTL TTL `json:"ttl,omitzero"`
	// Work sets which activity keeps an unused workspace awake.
	Work Work `json:"work,omitzero"`
	// ActivityMode is what counts as use of a workspace. With `presence`, a script in its pages
	// reports what people do there, and requests that the pages send by themselves do not count.
	// With `traffic`, everything counts, so an open tab keeps its workspace awake. Default:
	// `presence`.
	ActivityMode Value `json:"activity,omitempty"`
	// ActivityFlushInterval is how often this process writes to Redis which
	// workspaces were used. It must be well below the standby TTL. Default: 30s, or a
	// quarter of the standby TTL when that is less.
	ActivityFlushInterval Value `json:"activity_flush_interval,omitempty"`
	// Limits bound how many workspaces exist and run, and how many requests wait for them.
	Limits Limits `json:"limits,omitzero"`
	// RedisChannels are the prefixes of the Redis channels.
	RedisChannels Channels `json:"redis_channels,omitzero"`
	// RouteLease is how long the gateway uses the address of a running workspace without
	// confirmation by PostgreSQL, and so how long PostgreSQL may be down before users notice; after
	// that requests are held. The address of a stopped workspace is not reused for this time plus a
	// minute. All processes must use the same value. Default: `10m`.
	RouteLease Value `json:"route_lease,omitempty"`
	// SSEHeartbeatInterval is how often an idle event stream sends a heartbeat and checks that its
	// session is still valid. Default: 30s.
	SSEHeartbeatInterval Value `json:"sse_heartbeat_interval,omitempty"`
	// Timeouts bound how long an operation may take before it counts as failed.
	Timeouts Timeouts `json:"timeouts,omitzero"`

	warnings []string // about the settings that were read
}

// appTable lists the settings outside blocks, except those about sign-in and addresses.
func (a *App) appTable(r *Resolved) []Setting {
	o, live := &r.Options, &r.Live
	duration := func(name string, text *Value, dst *time.Duration, min time.Duration, checks ...parse.Check) Setting {
		return Setting{name, text, dst.String(), "", parse.Duration(dst, min, checks...)}
	}
	return []Setting{
		{"database", &a.Database, "", "write `database {env.DATABASE_URL}` and set that variable, " +
			"for example to postgres://user:password@host/codehub", parse.Text(&o.Database, postgresDSN)},
		{"redis", &a.Redis, "", "write `redis {env.REDIS_URL}` and set that variable, " +
			"for example to redis://127.0.0.1:6379/0", parse.Text(&o.Redis, redisURL)},
		{"redis_channels sse", &a.RedisChannels.SSE, events.DefaultSSEPrefix, "", parse.Text(&o.SSEPrefix, channelPrefix)},
		{"redis_channels wake", &a.RedisChannels.Wake, events.DefaultWakePrefix, "",
			parse.Text(&o.WakePrefix, channelPrefix)},
		{"installation", &a.Installation, defaultInstallation, "",
			parse.Text(&o.Docker.Installation)},
		{"admin_password", &a.AdminPassword, "", "", parse.Text(&live.AdminPassword)},
		duration("session_ttl", &a.SessionTTL, &o.SessionTTL, 0, notZero(&o.SessionTTL)),
		duration("audit_retention", &a.AuditRetention, &live.AuditRetention, 0),
		{"activity", &a.ActivityMode, string(live.Activity.Mode), "",
			parse.Text((*string)(&live.Activity.Mode), parse.OneOf(string(activity.Presence), string(activity.Traffic)))},
		duration("activity_flush_interval", &a.ActivityFlushInterval, &live.Activity.FlushInterval, shortestInterval),
		duration("sse_heartbeat_interval", &a.SSEHeartbeatInterval, &r.Heartbeat, shortestInterval),
		duration("route_lease", &a.RouteLease, &live.RouteLease, 0),
		duration("ttl doze", &a.TTL.Doze, &live.TTL.Doze, 0),
		duration("ttl standby", &a.TTL.Standby, &live.TTL.Standby, shortestTTL),
		duration("ttl archive", &a.TTL.Archive, &live.TTL.Archive, shortestTTL),
	}
}
