package coordinator

import (
	"cmp"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/control/scarcity"
	"github.com/codehub/gateway/coordinator/control/scrub"
	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store/auditlog"
)

// Options configure a [Coordinator] for its whole life. [Settings] can change at run time.
type Options struct {
	// Database is the PostgreSQL connection string or URL.
	Database string
	// Redis is the Redis URL: redis://, rediss:// or unix://.
	Redis string
	// Archive is the object store.
	Archive archive.Options
	// Docker is the container backend, unless Kubernetes is set.
	Docker docker.Options
	// Kubernetes, if set, is the container backend.
	Kubernetes *kubernetes.Options
	// Site are the installation's addresses as browsers see them.
	Site Site
	// NodeID names this process in system_locks and in /health/coordinator.
	// Default: the host's name.
	NodeID string
	// LockID is the key of the leader's advisory lock. All processes of an installation must use the same key, and
	// installations that share a database must use different keys. Default: [leader.DefaultLockID].
	LockID int64
	// Shards is the number of parts into which the workspaces are divided. Each part has a leader of its own, possibly
	// in another process (SPEC 5). Processes with different numbers never lead at the same time: those with the
	// smallest number lead, so the number can be changed process by process. At most [leader.MaxShards]. Default:
	// [leader.DefaultShards].
	Shards int
	// SessionTTL is how long a sign-in lasts. Default: [auth.DefaultSessionTTL].
	SessionTTL time.Duration
	// SSEPrefix and WakePrefix are the prefixes of the Redis channels' names. Defaults:
	// [events.DefaultSSEPrefix] and [events.DefaultWakePrefix].
	SSEPrefix, WakePrefix string
	// Wrap is used for tracing, and by tests that make servers fail.
	Wrap Wrap `json:"-"`
}

// Wrap sees the traffic with the servers, and may change it. Nil fields change nothing.
type Wrap struct {
	// Database sees every statement.
	Database pgx.QueryTracer
	// Backend and Archive return the transport for requests to the container backend and to the object store; it
	// replaces the given one.
	Backend, Archive func(http.RoundTripper) http.RoundTripper
}

// Site are the addresses of an installation as browsers see them.
type Site struct {
	// PublicURL is the origin of the main site, such as https://codehub.example.com; empty
	// when it is not known.
	PublicURL string
	// Domain is the domain below which workspaces have hosts, ws-{id}.<domain>.
	Domain string
	// PerHost means that browsers find workspaces on those hosts, instead of at /w/{id}/ of the main site.
	PerHost bool
}

// AdminUser is the name of the administrator whose password is a setting
// ([Settings.AdminPassword]).
const AdminUser = "admin"

// Settings can change at run time, through [Coordinator.Apply]. Each package owns the
// defaults and the validation of its own part.
type Settings struct {
	Leader    leader.Settings
	Reconcile reconcile.Settings
	TTL       ttl.Settings
	GC        gc.Settings
	Scrub     scrub.Settings
	Activity  activity.Settings
	// Pressure says what happens as the disk of the homes fills up.
	Pressure pressure.Settings
	// Scarcity says when memory is so scarce that dozing workspaces are put to sleep to free some of it.
	Scarcity scarcity.Settings
	// HomeWarn is a size in bytes. When a home reaches it, the owner is told and a line is logged; 0, the default,
	// means never.
	HomeWarn int64
	Archive  archive.Settings
	// Limits bound the workspaces that run.
	Limits service.Limits
	// MaxKeepAwake is how long people can keep an unused workspace awake; 0 means not at all. Default:
	// [service.DefaultMaxKeepAwake].
	MaxKeepAwake time.Duration
	// AuditRetention is how long the audit is kept (SPEC 13); 0 keeps it forever. Default:
	// [auditlog.DefaultRetention].
	AuditRetention time.Duration
	// Images are those that users choose from, the default first. Default: a single image named [launch.DefaultName],
	// with the reference and the port in [Options.Docker] or [Options.Kubernetes].
	Images launch.Catalog
	// MaxHeld bounds the requests of this process that wait for a workspace. A single user may have at most one in
	// [activator.DefaultShare] of them. Default: [activator.DefaultMaxHeld].
	MaxHeld int64
	// RouteLease is how long this process routes to addresses that PostgreSQL has not confirmed. All processes should
	// have the same value. Default: [route.DefaultLease].
	RouteLease time.Duration
	// SignInExempt are networks in which one user's failed sign-ins do not slow down the others (SPEC 11). Default:
	// none.
	SignInExempt []netip.Prefix
	// AdminPassword is the password of the user [AdminUser], which is created if missing. Empty leaves that user
	// unchanged. It MUST NOT be logged.
	AdminPassword string
}

// DefaultSettings are the defaults of all parts, which their packages define.
func DefaultSettings() Settings {
	return Settings{
		Leader:    leader.DefaultSettings(),
		Reconcile: reconcile.DefaultSettings(),
		TTL:       ttl.DefaultSettings(),
		GC:        gc.DefaultSettings(),
		Scrub:     scrub.DefaultSettings(),
		Activity:  activity.DefaultSettings(),
		Pressure:  pressure.DefaultSettings(),
		Scarcity:  scarcity.DefaultSettings(),
		Archive:   archive.DefaultSettings(),
		Limits:    service.DefaultLimits(),
		MaxHeld:   activator.DefaultMaxHeld,

		MaxKeepAwake:   service.DefaultMaxKeepAwake,
		RouteLease:     route.DefaultLease,
		AuditRetention: auditlog.DefaultRetention,
	}
}

// Delays returns the settings with which explanations compute when the next events will happen.
func (s Settings) Delays() explain.Delays {
	return explain.Delays{
		Standby: s.TTL.Standby, Archive: s.TTL.Archive, Doze: s.TTL.Doze, TTLInterval: s.TTL.Interval, WorkCap: s.TTL.Work.Cap,
		KeepDeleted: s.GC.KeepDeleted(), HomeWarn: s.HomeWarn,
		Timeouts: s.Reconcile.Timeouts, MaxRetry: s.Reconcile.MaxRetry, WaitLimit: s.Reconcile.WaitLimit,
	}
}

// withDefaults returns the options with defaults for empty fields.
func (o Options) withDefaults() Options {
	if o.NodeID == "" {
		o.NodeID, _ = os.Hostname() // an empty name is refused by Validate
	}
	o.LockID = cmp.Or(o.LockID, leader.DefaultLockID)
	o.Shards = cmp.Or(o.Shards, leader.DefaultShards)
	o.Archive.Transport = o.Wrap.Archive
	o.SessionTTL = cmp.Or(o.SessionTTL, auth.DefaultSessionTTL)
	o.SSEPrefix = cmp.Or(o.SSEPrefix, events.DefaultSSEPrefix)
	o.WakePrefix = cmp.Or(o.WakePrefix, events.DefaultWakePrefix)
	if o.Kubernetes != nil {
		k := o.Cluster() // a copy
		k.Transport = o.Wrap.Backend
		o.Kubernetes = &k
		return o
	}
	o.Docker.Transport = o.Wrap.Backend
	o.Docker = o.Engine()
	return o
}

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Database == "" {
		errs = append(errs, setting.Errorf("database",
			"missing; give a PostgreSQL URL such as postgres://user:password@host/database"))
	}
	if o.Redis == "" {
		errs = append(errs, setting.Errorf("redis", "missing; give a Redis URL such as redis://host:6379/0"))
	}
	if o.NodeID == "" {
		errs = append(errs, setting.Errorf("coordinator node_id", "the host has no name; set COORDINATOR_NODE_ID"))
	}
	return errors.Join(append(errs, leader.CheckShards(o.Shards), auth.Options{SessionTTL: o.SessionTTL}.Validate(),
		o.Archive.Validate(), o.validateBackend())...)
}

// Validate returns everything that is wrong with the settings.
func (s Settings) Validate() error {
	return errors.Join(s.Leader.Validate(), s.Reconcile.Validate(),
		s.TTL.Validate(), s.GC.Validate(), s.Scrub.Validate(), s.Activity.Validate(), s.Archive.Validate(),
		s.Limits.Validate(), s.Pressure.Validate(), s.Scarcity.Validate(), service.CheckMaxKeepAwake(s.MaxKeepAwake), auditlog.CheckRetention(s.AuditRetention),
		s.Images.Validate(),
		activator.CheckMaxHeld(s.MaxHeld),
		route.CheckLease(s.RouteLease))
}
