package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/explain"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/leader"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/ttl"
)

// Options configure a [Coordinator] for its whole life. What may change at run time is
// in [Settings].
type Options struct {
	// Database is the PostgreSQL connection string or URL.
	Database string
	// Redis is the Redis URL: redis://, rediss:// or unix://.
	Redis string
	// Archive is the object store.
	Archive archive.Options
	// Docker is the container backend.
	Docker docker.Options
	// NodeID names this process in system_locks and in /health/coordinator.
	// Default: the host's name.
	NodeID string
	// LockID is the key of the leader's advisory lock. All processes of an installation
	// must use the same key, and installations that share a database different ones.
	// Default: [leader.DefaultLockID].
	LockID int64
	// Shards is into how many parts the workspaces are divided, each with a leader of its
	// own, which may be different processes (SPEC 5). Processes with different numbers
	// never lead at the same time: those with the smallest number do, so the number can be
	// changed process by process. At most [leader.MaxShards]. Default:
	// [leader.DefaultShards].
	Shards int
	// SessionTTL is how long a sign-in lasts. Default: [auth.DefaultSessionTTL].
	SessionTTL time.Duration
	// SSEPrefix and WakePrefix are the prefixes of the Redis channels' names. Defaults:
	// [events.DefaultSSEPrefix] and [events.DefaultWakePrefix].
	SSEPrefix, WakePrefix string
	// Wrap is for tracing, and for tests that make servers fail.
	Wrap Wrap `json:"-"`
}

// Wrap sees the traffic with the servers, and may change it. Nil fields change nothing.
type Wrap struct {
	// Database sees every statement.
	Database pgx.QueryTracer
	// Backend and Archive return what sends the requests to the container backend and to
	// the object store, in place of the given one.
	Backend, Archive func(http.RoundTripper) http.RoundTripper
}

// AdminUser is the name of the administrator whose password is a setting
// ([Settings.AdminPassword]).
const AdminUser = "admin"

// DefaultHistoryRetention is the default of [Settings.HistoryRetention].
const DefaultHistoryRetention = 30 * 24 * time.Hour

// Settings can change at run time, through [Coordinator.Apply]. Each package owns the
// defaults and the validation of its own part.
type Settings struct {
	Leader    leader.Settings
	Reconcile reconcile.Settings
	TTL       ttl.Settings
	GC        gc.Settings
	Activity  activity.Settings
	// Limits bound the workspaces that run.
	Limits service.Limits
	// MaxHeld bounds the requests of this process that wait for a workspace.
	MaxHeld int64
	// HistoryRetention is how long transitions stay in the history of a workspace.
	// Default: [DefaultHistoryRetention].
	HistoryRetention time.Duration
	// AdminPassword is the password of the user [AdminUser], who is created if missing.
	// Empty leaves that user unchanged. It MUST NOT be logged.
	AdminPassword string
}

// DefaultSettings are the defaults of all parts, which their packages define.
func DefaultSettings() Settings {
	return Settings{
		Leader:    leader.DefaultSettings(),
		Reconcile: reconcile.DefaultSettings(),
		TTL:       ttl.DefaultSettings(),
		GC:        gc.DefaultSettings(),
		Activity:  activity.DefaultSettings(),
		Limits:    service.DefaultLimits(),
		MaxHeld:   activator.DefaultMaxHeld,

		HistoryRetention: DefaultHistoryRetention,
	}
}

// Delays are what explanations say about when something comes next.
func (s Settings) Delays() explain.Delays {
	return explain.Delays{
		Standby: s.TTL.Standby, Archive: s.TTL.Archive, TTLInterval: s.TTL.Interval, KeepDeleted: s.GC.Delay,
		Timeouts: s.Reconcile.Timeouts, MaxRetry: s.Reconcile.MaxRetry, WaitLimit: s.Reconcile.WaitLimit,
	}
}

// withDefaults returns the options with defaults for what is empty.
func (o Options) withDefaults() Options {
	if o.NodeID == "" {
		o.NodeID, _ = os.Hostname() // an empty name is refused by Validate
	}
	o.LockID = cmp.Or(o.LockID, leader.DefaultLockID)
	o.Shards = cmp.Or(o.Shards, leader.DefaultShards)
	o.Archive.Transport, o.Docker.Transport = o.Wrap.Archive, o.Wrap.Backend
	o.SessionTTL = cmp.Or(o.SessionTTL, auth.DefaultSessionTTL)
	o.SSEPrefix = cmp.Or(o.SSEPrefix, events.DefaultSSEPrefix)
	o.WakePrefix = cmp.Or(o.WakePrefix, events.DefaultWakePrefix)
	if o.Docker.JobNetwork == "" && onLoopback(cmp.Or(o.Archive.JobEndpoint, o.Archive.Endpoint)) {
		// In a network namespace of its own, the loopback address is the job itself and
		// not the store.
		o.Docker.JobNetwork = "host"
	}
	return o
}

// onLoopback reports whether the address of a URL is this machine.
func onLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}

// Validate reports everything that is wrong with the options at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Database == "" {
		errs = append(errs, errors.New("database: missing; give a PostgreSQL URL such as postgres://user:password@host/database"))
	}
	if o.Redis == "" {
		errs = append(errs, errors.New("redis: missing; give a Redis URL such as redis://host:6379/0"))
	}
	if o.NodeID == "" {
		errs = append(errs, errors.New("node_id: the host has no name; set COORDINATOR_NODE_ID"))
	}
	return errors.Join(append(errs, leader.CheckShards(o.Shards), auth.Options{SessionTTL: o.SessionTTL}.Validate(), o.Archive.Validate(), o.Docker.Validate())...)
}

// Validate reports everything that is wrong with the settings at once.
func (s Settings) Validate() error {
	var err error
	if s.HistoryRetention <= 0 {
		err = fmt.Errorf("history_retention: must be a duration above zero, such as 720h, not %s", s.HistoryRetention)
	}
	return errors.Join(err, s.Leader.Validate(), s.Reconcile.Validate(), s.TTL.Validate(), s.GC.Validate(),
		s.Activity.Validate(), s.Limits.Validate(), activator.CheckMaxHeld(s.MaxHeld))
}
