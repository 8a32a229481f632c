package settings

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/oidc"
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
)

// Defaults that no other package defines: names of this product, and the limits of a workspace.
const (
	defaultInstallation    = "codehub"
	defaultBucket          = "codehub"
	defaultWorkspaceImage  = "codercom/code-server:4.139.1"
	defaultWorkspaceMemory = "2GiB"
	defaultWorkspaceCPUs   = "2"
	defaultWorkspacePids   = "2048"
	defaultWorkspaceDisk   = "10GiB" // on Kubernetes, whose nodes enforce it
)

// These are the shortest durations that make sense. With shorter durations a loop would only keep the servers busy.
// Tests use values close to them.
const (
	shortestInterval = 10 * time.Millisecond
	shortestTTL      = 100 * time.Millisecond
)

// Resolved holds the settings after their placeholders were replaced.
type Resolved struct {
	Options   coordinator.Options
	Live      coordinator.Settings
	Heartbeat time.Duration
	OIDC      oidc.Settings
	// Passwords is whether people may sign in with a password.
	Passwords bool
	Site      Addresses
	Identity  ResolvedIdentity
	// Brand is the brand on the pages; nil for the product's own.
	Brand *brand.Brand

	WorkspacePorts, SharePorts bool

	keyFiles             keyFiles
	storeCA, podTemplate string // files
	kubernetes           kubernetes.Options
	brand                brandTexts
}

// Table lists every setting of the app. The resolved values go to r. Defaults and rules come from
// the package that uses the value, if it has any.
func (a *App) Table(r *Resolved) []Setting {
	r.Live, r.Heartbeat = coordinator.DefaultSettings(), events.DefaultHeartbeat
	o := &r.Options
	o.SessionTTL, o.LockID, o.Shards = auth.DefaultSessionTTL, leader.DefaultLockID, leader.DefaultShards
	table := slices.Concat(a.appTable(r), a.brandTable(r), a.signInTable(r), a.identityTable(r), a.siteTable(r),
		a.storeTable(r), a.encryptionTable(r), a.dockerTable(r), a.kubernetesTable(r), a.egressTable(r), a.volumeTable(r),
		a.coordinatorTable(r), a.workTable(r), a.limitTable(r))
	for i := range table {
		table[i].Parse = r.owned(table[i].Name, table[i].Parse)
	}
	return table
}

// owned returns a parser that also refuses what the package that owns the value refuses.
func (r *Resolved) owned(name string, read parse.Parser) parse.Parser {
	validate := func() error { return errors.Join(r.Options.Validate(), r.Live.Validate(), r.OIDC.Validate()) }
	if strings.HasPrefix(name, "kubernetes ") {
		validate = func() error { return r.kubernetes.Validate() }
	}
	check := parse.Owner(validate, name)
	return func(text string) error {
		if err := read(text); err != nil {
			return err
		}
		return check(text)
	}
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
	if err = r.resolveBrand(); err != nil {
		return r, err
	}
	if flush, _ := a.ActivityFlushInterval.resolve(repl); flush == "" {
		r.Live.Activity.FlushInterval = min(r.Live.Activity.FlushInterval, r.Live.TTL.Standby/4)
	} else if r.Live.Activity.FlushInterval >= r.Live.TTL.Standby {
		return r, fmt.Errorf("setting %q: %s is not below the setting \"ttl standby\" (%s), "+
			"so workspaces in use would be put to sleep: write %s or less",
			"activity_flush_interval", r.Live.Activity.FlushInterval, r.Live.TTL.Standby, r.Live.TTL.Standby/4)
	}
	if err := a.chooseBackend(&r); err != nil {
		return r, err
	}
	r.Options.Site = r.Site.complete()
	return r, errors.Join(r.Options.Validate(), r.Live.Validate(), r.validateSignIn(), r.validateIdentity())
}

// readStoreCA reads the certificates that may sign the object store's. The options hold their text
// instead of the file's name, so that a reload after the file changed takes effect.
func (r *Resolved) readStoreCA() error {
	if r.storeCA == "" {
		return nil
	}
	text, err := os.ReadFile(r.storeCA)
	if err != nil {
		return fmt.Errorf("setting %q: %w: write the path of a file with certificates that this process may read",
			"s3 ca", err)
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

// notZero refuses 0 if the package that uses the value takes it for "not set".
func notZero[T int | int64 | time.Duration](value *T) parse.Check {
	return func(s string) error {
		if *value == 0 {
			return fmt.Errorf("%s is out of range: write another value, or leave it out for the default", s)
		}
		return nil
	}
}

// channelPrefix refuses a prefix that would be a pattern for Redis.
func channelPrefix(s string) error {
	if strings.ContainsAny(s, "*?[]\\ \t\r\n") {
		return fmt.Errorf("%q is not a channel prefix: it must not hold spaces or * ? [ ] \\", s)
	}
	return nil
}
