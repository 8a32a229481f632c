package coordinator

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of the settings (SPEC 3, 5, 6, 10).
const (
	DefaultLockID        = 12345
	DefaultRetryInterval = 5 * time.Second
	DefaultTTLInterval   = time.Minute
	DefaultGCInterval    = 4 * time.Hour
	DefaultGCDelay       = 2 * time.Hour
	DefaultFlushInterval = 30 * time.Second
	DefaultStandbyTTL    = 10 * time.Minute
	DefaultArchiveTTL    = 30 * time.Minute
	DefaultSessionTTL    = 14 * 24 * time.Hour
	DefaultMaxPerUser    = 2
	DefaultMaxGlobal     = 100
	DefaultSSEPrefix     = "codehub:sse"
	DefaultWakePrefix    = "codehub:wake"
)

// Options are what a coordinator is made from. They hold for its whole life;
// what may change while it runs is in [Settings].
type Options struct {
	// Database is the PostgreSQL connection string or URL.
	Database string
	// Redis is the Redis URL: redis://, rediss:// or unix://.
	Redis string
	// Archive is the object store.
	Archive archive.Options
	// Docker is the container runtime.
	Docker docker.Options
	// NodeID names this process in system_locks and in /health/coordinator.
	// Default: the host's name.
	NodeID string
	// LockID is the key of the leader's advisory lock, the same in all processes
	// of one installation and in no other one that shares the database.
	LockID int64
	// SessionTTL is how long a sign-in lasts.
	SessionTTL time.Duration
	// SSEPrefix and WakePrefix begin the names of the Redis channels.
	SSEPrefix, WakePrefix string
}

// AdminUser is the name of the administrator whose password is a setting.
const AdminUser = "admin"

// Settings are what [Coordinator.Apply] may change at any time.
type Settings struct {
	// RetryInterval is the time between two attempts to become the leader, jittered.
	RetryInterval time.Duration
	// Reconcile paces the workspace controller.
	Reconcile reconcile.Settings
	// TTLInterval is the time between two rounds of the TTL runner.
	TTLInterval time.Duration
	// StandbyTTL is how long a running workspace may be idle; ArchiveTTL is how long
	// a workspace sleeps before it is archived.
	StandbyTTL, ArchiveTTL time.Duration
	// GCInterval is the time between two garbage collections; GCDelay is the time
	// from an orphan's first sighting to its deletion.
	GCInterval, GCDelay time.Duration
	// GCMaxShare is the largest share of all archives that one collection deletes.
	GCMaxShare float64
	// FlushInterval is the time between two writes of recorded activity to Redis.
	FlushInterval time.Duration
	// Limits bound the workspaces that run.
	Limits service.Limits
	// MaxHeld bounds the requests of this process that wait for a workspace.
	MaxHeld int64
	// AdminPassword is the password of the user [AdminUser], who is created if need
	// be. Empty leaves that user alone.
	AdminPassword string
}

// DefaultSettings are those of the specification.
func DefaultSettings() Settings {
	return Settings{
		RetryInterval: DefaultRetryInterval,
		Reconcile:     reconcile.DefaultSettings(),
		TTLInterval:   DefaultTTLInterval,
		StandbyTTL:    DefaultStandbyTTL,
		ArchiveTTL:    DefaultArchiveTTL,
		GCInterval:    DefaultGCInterval,
		GCDelay:       DefaultGCDelay,
		GCMaxShare:    gc.DefaultMaxShare,
		FlushInterval: DefaultFlushInterval,
		Limits:        service.Limits{PerUser: DefaultMaxPerUser, Global: DefaultMaxGlobal},
		MaxHeld:       activator.DefaultMaxHeld,
	}
}

// withDefaults fills in what was left empty.
func (o Options) withDefaults() Options {
	if o.NodeID == "" {
		o.NodeID, _ = os.Hostname() // an empty name is refused by Validate
	}
	if o.LockID == 0 {
		o.LockID = DefaultLockID
	}
	if o.SessionTTL == 0 {
		o.SessionTTL = DefaultSessionTTL
	}
	if o.SSEPrefix == "" {
		o.SSEPrefix = DefaultSSEPrefix
	}
	if o.WakePrefix == "" {
		o.WakePrefix = DefaultWakePrefix
	}
	if o.Docker.JobNetwork == "" && onLoopback(cmp.Or(o.Archive.JobEndpoint, o.Archive.Endpoint)) {
		// Inside a network of its own a job would look for the store on itself.
		o.Docker.JobNetwork = "host"
	}
	return o
}

// onLoopback reports whether a URL leads to this machine only.
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
	if o.SessionTTL < time.Minute {
		errs = append(errs, fmt.Errorf("session_ttl: %s is too short; give at least 1m", o.SessionTTL))
	}
	return errors.Join(append(errs, o.Archive.Validate(), o.Docker.Validate())...)
}

// Validate reports everything that is wrong with the settings at once.
func (s Settings) Validate() error {
	var errs []error
	positive := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: %s is no duration to wait; give one above zero, such as 15s", name, d))
		}
	}
	positive("retry_interval", s.RetryInterval)
	positive("idle_interval", s.Reconcile.IdleInterval)
	positive("active_interval", s.Reconcile.ActiveInterval)
	positive("ttl_interval", s.TTLInterval)
	errs = append(errs, gc.Settings{Interval: s.GCInterval, Delay: s.GCDelay, MaxShare: s.GCMaxShare}.Validate())
	positive("activity_flush_interval", s.FlushInterval)
	positive("standby_ttl", s.StandbyTTL)
	positive("archive_ttl", s.ArchiveTTL)
	for op, d := range s.Reconcile.Timeouts {
		positive("timeout of "+string(op), d)
		if _, known := workspace.DefaultTimeouts()[op]; !known {
			errs = append(errs, fmt.Errorf("timeout of %s: no such operation", op))
		}
	}
	if s.Reconcile.MaxConcurrent < 1 {
		errs = append(errs, fmt.Errorf("max_concurrent: %d; give at least 1", s.Reconcile.MaxConcurrent))
	}
	if s.Limits.PerUser < 1 {
		errs = append(errs, fmt.Errorf("max_running_per_user: %d; give at least 1", s.Limits.PerUser))
	}
	if s.MaxHeld < 0 {
		errs = append(errs, fmt.Errorf("max_held: %d; give at least 0", s.MaxHeld))
	}
	if s.Limits.Global < 1 {
		errs = append(errs, fmt.Errorf("max_running_global: %d; give at least 1", s.Limits.Global))
	}
	return errors.Join(errs...)
}
