package doctor

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/version"
)

// patient is the installation under examination.
type patient struct{ command.Settings }

// checks is the table of doctor, in the order of execution. The backend adds its own rows.
func (p patient) checks(b examined) []check.Row {
	return slices.Concat([]check.Row{{Name: "release", Run: release}}, Servers(p.Settings), []check.Row{
		{Name: "object store", Run: p.checkArchives,
			Remedy: "check the settings below s3 and the rights of the key"},
	}, b.rows, []check.Row{
		{Name: "identity", Needs: b.rows[0].Name, Run: func(ctx context.Context) ([]check.Finding, error) { return p.checkIdentity(ctx, b) }},
		{Name: "dozing", Run: p.checkDozing},
		{Name: "hosts", Run: p.checkHosts},
		{Name: "proxies", Run: p.checkProxies},
		{Name: "address", Needs: "database", Run: p.checkAddress},
	})
}

// release names the release of this program, because a report of doctor is the first thing that
// support asks for.
func release(context.Context) ([]check.Finding, error) {
	return []check.Finding{check.OK("CodeHub Gateway %s", version.String())}, nil
}

// Servers are the checks of PostgreSQL and Redis, for commands that depend on both.
func Servers(s command.Settings) []check.Row {
	p := patient{s}
	return []check.Row{
		{Name: "database", Run: p.checkDatabase,
			Remedy: "check the setting database (DATABASE_URL), and that PostgreSQL runs there"},
		{Name: "redis", Run: p.checkRedis,
			Remedy: "check the setting redis (REDIS_URL), and that Redis runs there"},
	}
}

// checkDozing reports whether idle workspaces doze, and how many workspaces may doze and so keep their memory.
func (p patient) checkDozing(context.Context) ([]check.Finding, error) {
	ttl, limits := p.Live.TTL, p.Live.Limits
	switch {
	case p.Options.Kubernetes != nil:
		return []check.Finding{check.OK("workspaces do not doze: Kubernetes cannot freeze containers, so ttl doze " +
			"has no effect")}, nil
	case !ttl.Dozes():
		return []check.Finding{check.OK("workspaces do not doze (ttl doze %s, ttl standby %s)", ttl.Doze, ttl.Standby)}, nil
	}
	if limits.Dozing.Global == 0 {
		return []check.Finding{check.OK("workspaces doze after %s without use and keep their memory: any number of them", ttl.Doze)}, nil
	}
	return []check.Finding{check.OK("workspaces doze after %s without use and keep their memory: at most %d of them, "+
		"beside those that run", ttl.Doze, limits.Dozing.Global)}, nil
}

func (p patient) checkDatabase(ctx context.Context) ([]check.Finding, error) {
	db, err := store.Open(p.Options.Database, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var pooler *postgres.PoolerError
	if err := db.Ping(ctx); errors.As(err, &pooler) {
		return []check.Finding{check.Problem(postgres.PoolerRemedy, "%s", pooler.Problem())}, nil
	} else if err != nil {
		return nil, err
	}
	before := time.Now()
	theirs, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	found := []check.Finding{check.Clock("PostgreSQL", before, theirs, time.Now())}
	r, err := db.Release(ctx)
	if err != nil {
		return nil, err
	}
	return append(found, schema(r)...), nil
}

// schema checks that this release knows the database's schema. An older or missing schema is no finding, because a
// server brings it up to date when it starts.
func schema(r postgres.Release) []check.Finding {
	const remedy = "upgrade this process to the release of the others"
	switch {
	case r.MayServe() != nil:
		return []check.Finding{check.Problem(remedy, "%s", r.MayServe())}
	case r.MayLead() != nil:
		return []check.Finding{check.Warning(remedy, "%s", r.MayLead())}
	case r.Schema > r.Known:
		return []check.Finding{check.Warning(remedy,
			"the schema of the database is at version %d, and this release knows version %d: "+
				"it leads and serves as before",
			r.Schema, r.Known)}
	}
	return nil
}

func (p patient) checkArchives(ctx context.Context) ([]check.Finding, error) {
	s, err := archive.New(p.Options.Archive)
	if err != nil {
		return nil, err
	}
	if found, err := p.whoseBucket(ctx, s); found != nil || err != nil {
		return found, err
	}
	var found []check.Finding
	for _, f := range s.Check(ctx) {
		level := check.Problem
		switch {
		case errors.Is(f.Err, archive.ErrNoBucket):
			f.Remedy = "start Caddy once: it creates the bucket; or check s3 bucket, endpoint and path_style"
			level = check.Warning
		case f.Weak:
			level = check.Warning
		}
		found = append(found, level(f.Remedy, "%s", f.Text))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("the bucket can be listed, written, read and cleared, " +
			"and the store keeps the conditions of writes")}
	}
	return found, nil
}

// whoseBucket returns a finding if the bucket belongs to another installation, or if its owner is unknown. Nothing may
// then be written to it, not even as a test. It returns none for a bucket that cannot be read: the test of the bucket
// begins with reading, and reports the error.
func (p patient) whoseBucket(ctx context.Context, s *archive.Store) (found []check.Finding, err error) {
	err = p.compare(ctx, nil, s, func(known *identity.Guard) {
		var other *identity.MismatchError
		if errors.As(known.LookAtBucket(ctx), &other) {
			found = []check.Finding{check.Problem("look at s3 endpoint, bucket and prefix, or accept it", "%s", other)}
		}
	})
	if err != nil {
		found = []check.Finding{check.Warning("fix database first",
			"not tried: only the database says whether the bucket is this installation's")}
	}
	return found, nil
}

// checkIdentity reports whether the engine or cluster that answers is the recorded one.
func (p patient) checkIdentity(ctx context.Context, b identity.Backend) (found []check.Finding, err error) {
	failed := p.compare(ctx, b, nil, func(known *identity.Guard) {
		var other *identity.MismatchError
		switch err = known.LookAtBackend(ctx); {
		case errors.As(err, &other):
			found = []check.Finding{check.Problem("look at the setting "+p.Options.BackendName()+", or accept it: caddy codehub accept backend",
				"%s", other)}
			err = nil
		case err == nil:
			found = []check.Finding{check.OK("what answers is where the workspaces of this installation are, or the first to be seen")}
		}
	})
	if failed != nil {
		return []check.Finding{check.Warning("fix database first", "not tried: only the database says which one this installation has")}, nil
	}
	return found, err
}

// compare calls look with the recorded identities. Its error comes from the database.
func (p patient) compare(ctx context.Context, b identity.Backend, bucket identity.Bucket, look func(*identity.Guard)) error {
	rows, err := p.identities(ctx)
	if err == nil {
		look(identity.New(recorded{rows: rows}, b, bucket, p.Options.Installation(), zap.NewNop()))
	}
	return err
}

// identities reads the recorded identities from the database: none before the first start.
func (p patient) identities(ctx context.Context) (map[store.Resource]store.Identity, error) {
	db, err := store.Open(p.Options.Database, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if r, err := db.Release(ctx); err != nil || r.Schema == 0 {
		return nil, err
	}
	return db.Identities(ctx)
}

// recorded is the database for read-only checks.
type recorded struct {
	identity.Store
	rows map[store.Resource]store.Identity
}

// Identities implements [identity.Store].
func (r recorded) Identities(context.Context) (map[store.Resource]store.Identity, error) {
	return r.rows, nil
}

// checkProxies reports whether the address that people open, and the trusted proxies, fit the servers.
func (p patient) checkProxies(context.Context) (found []check.Finding, err error) {
	for _, a := range site.Advise(p.PublicURL, p.MainHost, p.Settings.Servers) {
		found = append(found, check.Warning(a.Remedy, "%s", a.Text))
	}
	if found == nil {
		found = []check.Finding{check.OK("the addresses of clients are those of connections, or of trusted proxies in strict order")}
	}
	return found, nil
}

func (p patient) checkHosts(ctx context.Context) ([]check.Finding, error) {
	at := p.Options.Site
	if !at.PerHost {
		return []check.Finding{check.Warning("set workspace_url host, with a wildcard name",
			"workspaces are at paths of the main site and share its origin: "+
				"what runs in one can act for its owner on the dashboard")}, nil
	}
	name := "ws-00000000-0000-4000-8000-000000000000." + at.Domain
	if at.Domain == "localhost" || strings.HasSuffix(at.Domain, ".localhost") {
		return []check.Finding{check.OK("browsers resolve every name below localhost to this machine")}, nil
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		// This is only a warning: only browsers use these names, and they may use other name servers than this machine,
		// which may be a Pod.
		return []check.Finding{check.Warning(
			"if browsers do not resolve them either, add a wildcard record of the domain to DNS, "+
				"or set workspace_url path",
			"names below %s do not resolve on this machine: %s", at.Domain, err)}, nil
	}
	return []check.Finding{check.OK("names below %s resolve to %s", at.Domain, strings.Join(addresses, ", "))}, nil
}
