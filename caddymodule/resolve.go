package codehub

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/workspace"
)

// setting joins the text of a setting with its meaning. One table serves the
// Caddyfile, the JSON configuration and the messages.
type setting struct {
	// name is how people write it: section and option of the Caddyfile.
	name string
	text *Value
	// def is used when the text is empty. A setting without one and with a remedy
	// must be given.
	def    string
	remedy string
	form   form
}

// shortest are the least durations that make sense: below them a loop would only
// keep the servers busy. Tests use values close to them.
const (
	shortestInterval = 10 * time.Millisecond
	shortestTTL      = 100 * time.Millisecond
)

// resolved are the settings after their placeholders were replaced.
type resolved struct {
	options   coordinator.Options
	live      coordinator.Settings
	heartbeat time.Duration
}

// table lists every setting of the app. The resolved values go to r.
func (a *App) table(r *resolved) []setting {
	r.live = coordinator.DefaultSettings()
	o, live := &r.options, &r.live
	s3, docker, coord := &a.S3, &a.Docker, &a.Coordinator
	s := []setting{
		{"database", &a.Database, "", "write `database {env.DATABASE_URL}` and set that variable, for example to postgres://user:password@host/codehub", textForm(&o.Database, postgresDSN)},
		{"redis", &a.Redis, "", "write `redis {env.REDIS_URL}` and set that variable, for example to redis://127.0.0.1:6379/0", textForm(&o.Redis, redisURL)},
		{"installation", &a.Installation, "codehub", "", textForm(&o.Docker.Installation, installationName)},
		{"admin_password", &a.AdminPassword, "", "", textForm(&o.AdminPassword)},
		{"session_ttl", &a.SessionTTL, "336h", "", durationForm(&o.SessionTTL, time.Minute)},
		{"activity_flush_interval", &a.ActivityFlushInterval, "30s", "", durationForm(&live.FlushInterval, shortestInterval)},
		{"sse_heartbeat_interval", &a.SSEHeartbeatInterval, "30s", "", durationForm(&r.heartbeat, shortestInterval)},

		{"s3 endpoint", &s3.Endpoint, "", "", textForm(&o.Archive.Endpoint, httpURL)},
		{"s3 region", &s3.Region, "us-east-1", "", textForm(&o.Archive.Region)},
		{"s3 bucket", &s3.Bucket, "codehub", "", textForm(&o.Archive.Bucket, bucketName)},
		{"s3 prefix", &s3.Prefix, "archives/", "", textForm(&o.Archive.Prefix, keyPrefix)},
		{"s3 path_style", &s3.PathStyle, "", "", boolForm(&o.Archive.PathStyle)},
		{"s3 access_key", &s3.AccessKey, "", "", textForm(&o.Archive.AccessKey)},
		{"s3 secret_key", &s3.SecretKey, "", "", textForm(&o.Archive.SecretKey)},
		{"s3 job_endpoint", &s3.JobEndpoint, "", "", textForm(&o.Archive.JobEndpoint, httpURL)},

		{"docker host", &docker.Host, "", "", textForm(&o.Docker.Host, dockerHost)},
		{"docker network", &docker.Network, "", "", textForm(&o.Docker.Network)},
		{"docker job_network", &docker.JobNetwork, "", "", textForm(&o.Docker.JobNetwork)},
		{"docker publish", &docker.Publish, "none", "", textForm(&o.Docker.Publish, oneOf("none", "loopback"))},
		{"docker workspace_image", &docker.WorkspaceImage, "codercom/code-server:4.139.1", "", textForm(&o.Docker.Image)},
		{"docker workspace_port", &docker.WorkspacePort, "8080", "", integerForm(&o.Docker.Port, 1, 65535)},
		{"docker job_image", &docker.JobImage, "codehub/storagejob:latest", "", textForm(&o.Docker.JobImage)},
		{"docker memory", &docker.Memory, "2GiB", "", sizeForm(&o.Docker.MemoryBytes)},
		{"docker cpus", &docker.CPUs, "2", "", cpusForm(&o.Docker.NanoCPUs)},
		{"docker pids", &docker.Pids, "2048", "", integerForm(&o.Docker.PidsLimit, 0, 1<<22)},

		{"coordinator node_id", &coord.NodeID, hostname(), "write `node_id` in the coordinator block: the host's name is not known", textForm(&o.NodeID)},
		{"coordinator lock_id", &coord.LockID, "12345", "", integerForm(&o.LockID, 1, 1<<62)},
		{"coordinator retry_interval", &coord.RetryInterval, "5s", "", durationForm(&live.RetryInterval, shortestInterval)},
		{"coordinator idle_interval", &coord.IdleInterval, "15s", "", durationForm(&live.Reconcile.IdleInterval, shortestInterval)},
		{"coordinator active_interval", &coord.ActiveInterval, "1s", "", durationForm(&live.Reconcile.ActiveInterval, shortestInterval)},
		{"coordinator ttl_interval", &coord.TTLInterval, "60s", "", durationForm(&live.TTLInterval, shortestInterval)},
		{"coordinator gc_interval", &coord.GCInterval, "4h", "", durationForm(&live.GCInterval, shortestInterval)},
		{"coordinator gc_delay", &coord.GCDelay, "2h", "", durationForm(&live.GCDelay, shortestInterval)},
		{"coordinator max_concurrent", &coord.MaxConcurrent, "10", "", integerForm(&live.Reconcile.MaxConcurrent, 1, 1000)},

		{"ttl standby", &a.TTL.Standby, "600s", "", durationForm(&live.StandbyTTL, shortestTTL)},
		{"ttl archive", &a.TTL.Archive, "1800s", "", durationForm(&live.ArchiveTTL, shortestTTL)},

		{"limits max_running_per_user", &a.Limits.MaxRunningPerUser, "2", "", integerForm(&live.Limits.PerUser, 1, 1_000_000)},
		{"limits max_running_global", &a.Limits.MaxRunningGlobal, "100", "", integerForm(&live.Limits.Global, 1, 1_000_000)},

		{"redis_channels sse", &a.RedisChannels.SSE, "codehub:sse", "", textForm(&o.SSEPrefix, channelPrefix)},
		{"redis_channels wake", &a.RedisChannels.Wake, "codehub:wake", "", textForm(&o.WakePrefix, channelPrefix)},
	}
	for _, t := range []struct {
		op   workspace.Operation
		text *Value
		def  string
	}{
		{workspace.OpCreateEmptyArchive, &a.Timeouts.CreateEmptyArchive, "5m"},
		{workspace.OpProvisioning, &a.Timeouts.Provisioning, "5m"},
		{workspace.OpRestoring, &a.Timeouts.Restoring, "30m"},
		{workspace.OpStarting, &a.Timeouts.Starting, "5m"},
		{workspace.OpStopping, &a.Timeouts.Stopping, "5m"},
		{workspace.OpArchiving, &a.Timeouts.Archiving, "30m"},
		{workspace.OpDeleting, &a.Timeouts.Deleting, "10m"},
	} {
		s = append(s, setting{"timeouts " + strings.ToLower(string(t.op)), t.text, t.def, "", func(text string) error {
			var d time.Duration
			err := durationForm(&d, shortestTTL)(text)
			live.Reconcile.Timeouts[t.op] = d
			return err
		}})
	}
	return s
}

// resolve replaces placeholders, fills in defaults and checks everything. It
// performs no I/O but reading files named by placeholders.
func (a *App) resolve(repl *caddy.Replacer) (resolved, error) {
	var r resolved
	err := resolveAll(a.table(&r), repl)
	s3 := &r.options.Archive
	if path, _ := a.S3.PathStyle.resolve(repl); path == "" {
		s3.PathStyle = s3.Endpoint != ""
	}
	flush, _ := a.ActivityFlushInterval.resolve(repl)
	switch {
	case flush == "":
		r.live.FlushInterval = min(r.live.FlushInterval, r.live.StandbyTTL/4)
	case err == nil && r.live.FlushInterval >= r.live.StandbyTTL:
		err = fmt.Errorf("setting %q: %s is not below the setting \"ttl standby\" (%s), so a workspace in use would be put to sleep: write %s or less",
			"activity_flush_interval", r.live.FlushInterval, r.live.StandbyTTL, r.live.StandbyTTL/4)
	}
	return r, err
}

// resolveAll stores the meaning of every setting where it belongs, and returns all
// that is wrong, not only the first.
func resolveAll(table []setting, repl *caddy.Replacer) error {
	var errs []error
	for _, s := range table {
		text, err := s.text.resolve(repl)
		if err == nil {
			if text == "" {
				text = s.def
			}
			switch {
			case text != "":
				err = s.form(text)
			case s.remedy != "":
				err = errors.New("is required: " + s.remedy)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %q: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}

func hostname() string {
	name, _ := os.Hostname()
	return name
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
// because it may carry a password.
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

func httpURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.User != nil || u.RawQuery != "" {
		return errors.New("is not the address of an object store: write http://host:port or https://host")
	}
	return nil
}

func dockerHost(s string) error {
	scheme, _, ok := strings.Cut(s, "://")
	if !ok || !strings.Contains(" unix tcp http https npipe ssh ", " "+scheme+" ") {
		return fmt.Errorf("%q is not the address of a Docker engine: write unix:///run/docker.sock or tcp://host:2375", s)
	}
	return nil
}

var (
	installationForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)
	bucketForm       = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
)

func installationName(s string) error {
	if !installationForm.MatchString(s) {
		return fmt.Errorf("%q is not a name: use at most 63 small letters, digits, dots, dashes and underscores", s)
	}
	return nil
}

func bucketName(s string) error {
	if !bucketForm.MatchString(s) {
		return fmt.Errorf("%q is not a bucket's name: use 3 to 63 small letters, digits, dots and dashes", s)
	}
	return nil
}

func keyPrefix(s string) error {
	if strings.HasPrefix(s, "/") || !strings.HasSuffix(s, "/") {
		return fmt.Errorf("%q is not a prefix of keys: it must end with a slash and not begin with one, as archives/ does", s)
	}
	return nil
}

func channelPrefix(s string) error {
	if strings.ContainsAny(s, "*?[]\\ \t\r\n") {
		return fmt.Errorf("%q is not a channel prefix: it must not hold spaces or * ? [ ] \\", s)
	}
	return nil
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return fmt.Errorf("%q is not known: write %s", s, strings.Join(words, " or "))
	}
}
