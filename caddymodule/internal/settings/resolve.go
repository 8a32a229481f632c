package settings

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/internal/oidc"
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
)

// Defaults that no other package has: names of this product, and what one workspace
// may use.
const (
	defaultInstallation    = "codehub"
	defaultBucket          = "codehub"
	defaultWorkspaceImage  = "codercom/code-server:4.139.1"
	defaultWorkspaceMemory = "2GiB"
	defaultWorkspaceCPUs   = "2"
	defaultWorkspacePids   = "2048"
	defaultWorkspaceDisk   = "10GiB" // on Kubernetes, whose nodes enforce it
)

// The least durations that make sense: below them a loop would only keep the servers
// busy. Tests use values close to them.
const (
	shortestInterval = 10 * time.Millisecond
	shortestTTL      = 100 * time.Millisecond
)

// Resolved are the settings after their placeholders were replaced.
type Resolved struct {
	Options   coordinator.Options
	Live      coordinator.Settings
	Heartbeat time.Duration
	OIDC      oidc.Settings
	// Passwords is whether people may sign in with one.
	Passwords bool
	Site      Addresses
	Identity  ResolvedIdentity

	WorkspacePorts, SharePorts bool

	keyFiles             keyFiles
	storeCA, podTemplate string // files
	kubernetes           kubernetes.Options
}

// Table lists every setting of the app. The resolved values go to r. Defaults and
// rules are those of the package that a value is for, where it has any.
func (a *App) Table(r *Resolved) []Setting {
	r.Live = coordinator.DefaultSettings()
	o, live := &r.Options, &r.Live
	option := func(name string) parse.Check { return parse.Owner(func() error { return o.Validate() }, name) }
	change := func(name string) parse.Check { return parse.Owner(func() error { return live.Validate() }, name) }
	text := func(v any) string { return fmt.Sprint(v) }
	s3, engine, coord := &a.S3, &a.Docker, &a.Coordinator
	s := []Setting{
		{"database", &a.Database, "", "write `database {env.DATABASE_URL}` and set that variable, for example to postgres://user:password@host/codehub", parse.Text(&o.Database, postgresDSN)},
		{"redis", &a.Redis, "", "write `redis {env.REDIS_URL}` and set that variable, for example to redis://127.0.0.1:6379/0", parse.Text(&o.Redis, redisURL)},
		{"installation", &a.Installation, defaultInstallation, "", parse.Text(&o.Docker.Installation, option("docker installation"))},
		{"admin_password", &a.AdminPassword, "", "", parse.Text(&live.AdminPassword)},
		{"session_ttl", &a.SessionTTL, text(auth.DefaultSessionTTL), "", parse.Duration(&o.SessionTTL, 0, notZero(&o.SessionTTL), option("session_ttl"))},
		{"activity", &a.ActivityMode, text(live.Activity.Mode), "", parse.Text((*string)(&live.Activity.Mode), parse.OneOf(string(activity.Presence), string(activity.Traffic)))},
		{"activity_flush_interval", &a.ActivityFlushInterval, text(live.Activity.FlushInterval), "", parse.Duration(&live.Activity.FlushInterval, shortestInterval)},
		{"sse_heartbeat_interval", &a.SSEHeartbeatInterval, text(events.DefaultHeartbeat), "", parse.Duration(&r.Heartbeat, shortestInterval)},
	}
	s = append(s, a.signInTable(r)...)
	s = append(s, a.identityTable(r)...)
	s = append(s, []Setting{
		{"s3 endpoint", &s3.Endpoint, "", "", parse.Text(&o.Archive.Endpoint, option("s3 endpoint"))},
		{"s3 region", &s3.Region, archive.DefaultRegion, "", parse.Text(&o.Archive.Region)},
		{"s3 bucket", &s3.Bucket, defaultBucket, "", parse.Text(&o.Archive.Bucket, option("s3 bucket"))},
		{"s3 prefix", &s3.Prefix, archive.DefaultPrefix, "", parse.Text(&o.Archive.Prefix, option("s3 prefix"))},
		{"s3 path_style", &s3.PathStyle, "", "", parse.Bool(&o.Archive.PathStyle)},
		{"s3 access_key", &s3.AccessKey, "", "", parse.Text(&o.Archive.AccessKey)},
		{"s3 secret_key", &s3.SecretKey, "", "", parse.Text(&o.Archive.SecretKey)},
		{"s3 job_endpoint", &s3.JobEndpoint, "", "", parse.Text(&o.Archive.JobEndpoint, option("s3 job endpoint"))},
		{"s3 verify", &s3.Verify, live.Archive.Verify, "", parse.Text(&live.Archive.Verify, change("s3 verify"))},
		{"s3 ca", &s3.CA, "", "", parse.Text(&r.storeCA)},
		{"s3 sse", &s3.SSE, "", "", parse.Text(&o.Archive.SSE, option("s3 sse"))},

		{"docker host", &engine.Host, "", "", parse.Text(&o.Docker.Host, option("docker host"))},
		{"docker network", &engine.Network, "", "", parse.Text(&o.Docker.Network, option("docker network"))},
		{"docker job_network", &engine.JobNetwork, "", "", parse.Text(&o.Docker.JobNetwork, option("docker job network"))},
		{"docker publish", &engine.Publish, spec.PublishNone, "", parse.Text(&o.Docker.Publish, option("docker publish"))},
		{"docker workspace_image", &engine.WorkspaceImage, defaultWorkspaceImage, "", parse.Text(&o.Docker.Image, option("docker workspace image"))},
		{"docker workspace_port", &engine.WorkspacePort, text(spec.DefaultPort), "", parse.Integer(&o.Docker.Port, notZero(&o.Docker.Port), option("docker workspace port"))},
		{"docker job_image", &engine.JobImage, spec.DefaultJobImage, "", parse.Text(&o.Docker.JobImage, option("docker job image"))},
		{"docker memory", &engine.Memory, defaultWorkspaceMemory, "", parse.Size(&o.Docker.MemoryBytes, option("docker memory"))},
		{"docker cpus", &engine.CPUs, defaultWorkspaceCPUs, "", parse.CPUs(&o.Docker.NanoCPUs, option("docker cpus"))},
		{"docker pids", &engine.Pids, defaultWorkspacePids, "", parse.Integer(&o.Docker.PidsLimit, option("docker pids"))},

		{"coordinator node_id", &coord.NodeID, "", "", parse.Text(&o.NodeID)},
		{"coordinator lock_id", &coord.LockID, text(leader.DefaultLockID), "", parse.Integer(&o.LockID, notZero(&o.LockID))},
		{"coordinator shards", &coord.Shards, "1", "", parse.Integer(&o.Shards, notZero(&o.Shards), option("shards"))},
		{"coordinator retry_interval", &coord.RetryInterval, text(live.Leader.RetryInterval), "", parse.Duration(&live.Leader.RetryInterval, shortestInterval)},
		{"coordinator idle_interval", &coord.IdleInterval, text(live.Reconcile.IdleInterval), "", parse.Duration(&live.Reconcile.IdleInterval, shortestInterval)},
		{"coordinator active_interval", &coord.ActiveInterval, text(live.Reconcile.ActiveInterval), "", parse.Duration(&live.Reconcile.ActiveInterval, shortestInterval)},
		{"coordinator ttl_interval", &coord.TTLInterval, text(live.TTL.Interval), "", parse.Duration(&live.TTL.Interval, shortestInterval)},
		{"coordinator gc_interval", &coord.GCInterval, text(live.GC.Interval), "", parse.Duration(&live.GC.Interval, shortestInterval)},
		{"coordinator gc_delay", &coord.GCDelay, text(live.GC.Delay), "", parse.Duration(&live.GC.Delay, shortestInterval)},
		{"coordinator gc_max_share", &coord.GCMaxShare, text(live.GC.MaxShare), "", parse.Fraction(&live.GC.MaxShare, change("gc_max_share"))},
		{"coordinator gc_upload_expiry", &coord.GCUploadExpiry, text(live.GC.UploadExpiry), "", parse.Duration(&live.GC.UploadExpiry, shortestTTL)},
		{"coordinator keep_archives", &coord.KeepArchives, text(live.GC.Keep), "", parse.Integer(&live.GC.Keep, change("keep_archives"))},
		{"coordinator scrub", &coord.Scrub, "20GiB", "", parse.Size(&live.Scrub.BytesPerDay, change("scrub"))},
		{"coordinator max_concurrent", &coord.MaxConcurrent, text(live.Reconcile.MaxConcurrent), "", parse.Integer(&live.Reconcile.MaxConcurrent, change("max_concurrent"))},
		{"coordinator max_jobs", &coord.MaxJobs, text(live.Reconcile.MaxJobs), "", parse.Integer(&live.Reconcile.MaxJobs, change("max_jobs"))},
		{"coordinator max_retry", &coord.MaxRetry, text(live.Reconcile.MaxRetry), "", parse.Integer(&live.Reconcile.MaxRetry, change("max_retry"))},
		{"coordinator stable_after", &coord.StableAfter, text(live.Reconcile.StableAfter), "", parse.Duration(&live.Reconcile.StableAfter, shortestInterval)},
		{"coordinator operation_limit", &coord.OperationLimit, text(live.Reconcile.OperationLimit), "", parse.Duration(&live.Reconcile.OperationLimit, shortestTTL)},
		{"coordinator wait_limit", &coord.WaitLimit, text(live.Reconcile.WaitLimit), "", parse.Duration(&live.Reconcile.WaitLimit, shortestInterval)},
		{"coordinator max_loss_share", &coord.MaxLossShare, text(live.Reconcile.MaxLossShare), "", parse.Fraction(&live.Reconcile.MaxLossShare, change("max_loss_share"))},
		{"coordinator history_retention", &coord.HistoryRetention, text(live.HistoryRetention), "", parse.Duration(&live.HistoryRetention, shortestTTL)},

		{"ttl standby", &a.TTL.Standby, text(live.TTL.Standby), "", parse.Duration(&live.TTL.Standby, shortestTTL)},
		{"ttl archive", &a.TTL.Archive, text(live.TTL.Archive), "", parse.Duration(&live.TTL.Archive, shortestTTL)},

		{"limits max_running_per_user", &a.Limits.MaxRunningPerUser, text(live.Limits.PerUser), "", parse.Integer(&live.Limits.PerUser, change("max_running_per_user"))},
		{"limits max_running_global", &a.Limits.MaxRunningGlobal, text(live.Limits.Global), "", parse.Integer(&live.Limits.Global, change("max_running_global"))},
		{"limits max_held", &a.Limits.MaxHeld, text(live.MaxHeld), "", parse.Integer(&live.MaxHeld, change("max_held"))},
		{"limits max_workspaces_per_user", &a.Limits.MaxWorkspacesPerUser, text(live.Limits.Workspaces), "", parse.Integer(&live.Limits.Workspaces, change("max_workspaces_per_user"))},

		{"redis_channels sse", &a.RedisChannels.SSE, events.DefaultSSEPrefix, "", parse.Text(&o.SSEPrefix, channelPrefix)},
		{"redis_channels wake", &a.RedisChannels.Wake, events.DefaultWakePrefix, "", parse.Text(&o.WakePrefix, channelPrefix)},
	}...)
	s = append(s, a.encryptionTable(r)...)
	s = append(s, a.workTable(r, change)...)
	s = append(s, a.siteTable(r)...)
	s = append(s, a.addressTable(r, option, change)...)
	s = append(s, a.kubernetesTable(r)...)
	s = append(s, a.volumeTable(r, change)...)
	return append(s, a.egressTable(r)...)
}

// Resolve resolves every setting of the app, and then checks those that depend on one another.
func (a *App) Resolve(repl *caddy.Replacer) (Resolved, error) {
	var r Resolved
	if err := Resolve(a.Table(&r), repl); err != nil {
		return r, err
	}
	var err error
	if r.Live.Images, err = a.resolveImages(repl); err != nil {
		return r, err
	}
	if err := r.readKeys(); err != nil {
		return r, err
	}
	s3 := &r.Options.Archive
	if path, _ := a.S3.PathStyle.resolve(repl); path == "" {
		s3.PathStyle = s3.Endpoint != ""
	}
	if err = r.readStoreCA(); err != nil {
		return r, err
	}
	if flush, _ := a.ActivityFlushInterval.resolve(repl); flush == "" {
		r.Live.Activity.FlushInterval = min(r.Live.Activity.FlushInterval, r.Live.TTL.Standby/4)
	} else if r.Live.Activity.FlushInterval >= r.Live.TTL.Standby {
		return r, fmt.Errorf("setting %q: %s is not below the setting \"ttl standby\" (%s), so workspaces in use would be put to sleep: write %s or less",
			"activity_flush_interval", r.Live.Activity.FlushInterval, r.Live.TTL.Standby, r.Live.TTL.Standby/4)
	}
	if err := a.chooseBackend(&r); err != nil {
		return r, err
	}
	r.Options.Site = r.Site.complete()
	return r, errors.Join(r.Options.Validate(), r.Live.Validate(), r.validateSignIn(), r.validateIdentity())
}

// readStoreCA reads the certificates that the object store's may be signed with. Their text,
// and not the file's name, is among the options: a reload after the file changed takes effect.
func (r *Resolved) readStoreCA() error {
	if r.storeCA == "" {
		return nil
	}
	text, err := os.ReadFile(r.storeCA)
	if err != nil {
		return fmt.Errorf("setting %q: %w: write the path of a file with certificates that this process may read", "s3 ca", err)
	}
	s3 := &r.Options.Archive
	s3.CA = string(text)
	if s3.CA == "" {
		s3.CA = "\n" // not the same as no setting
	}
	if err := parse.Owner(s3.Validate, "s3 ca")(r.storeCA); err != nil {
		return fmt.Errorf("setting %q: %s: %w", "s3 ca", r.storeCA, err)
	}
	return nil
}

// postgresDSN checks a connection string. The parser's own message leaves the
// password out.
func postgresDSN(s string) error {
	if _, err := pgx.ParseConfig(s); err != nil {
		return fmt.Errorf("%w: write postgres://user:password@host:5432/name", err)
	}
	return nil
}

// redisURL checks a Redis address. The address itself is left out of the message
// because it may hold a password.
func redisURL(s string) error {
	_, err := redis.ParseURL(s)
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if err != nil {
		return fmt.Errorf("%w: write redis://:password@host:6379/0 or unix:///path/of/socket", err)
	}
	return nil
}

// notZero refuses 0 where the owner of the value takes it for "not set".
func notZero[T int | int64 | time.Duration](value *T) parse.Check {
	return func(s string) error {
		if *value == 0 {
			return fmt.Errorf("%s is out of range: write another value, or leave it out for the default", s)
		}
		return nil
	}
}

// channelPrefix refuses what would be a pattern for Redis.
func channelPrefix(s string) error {
	if strings.ContainsAny(s, "*?[]\\ \t\r\n") {
		return fmt.Errorf("%q is not a channel prefix: it must not hold spaces or * ? [ ] \\", s)
	}
	return nil
}
