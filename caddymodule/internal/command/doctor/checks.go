package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// checks is the table of doctor, in the order in which they run.
var checks = []check{
	{"database", "", checkDatabase, "check the setting database (DATABASE_URL), and that PostgreSQL runs there"},
	{"redis", "", checkRedis, "check the setting redis (REDIS_URL), and that Redis runs there"},
	{"object store", "", checkArchives, "check the settings below s3 and the rights of the key"},
	{"engine", "", checkEngine, "check the setting docker host (DOCKER_HOST), and that the engine runs"},
	{"images", "engine", checkImages, ""},
	{"network", "engine", checkNetwork, ""},
	{"egress", "engine", checkEgress, "egress enforce open says that workspaces may reach everything; allow the engine's host to run a container with NET_ADMIN otherwise"},
	{"isolation", "engine", checkIsolation, "see the line of egress"},
	{"disk", "engine", checkDisk, "put the engine's data folder on xfs mounted with pquota, or set docker disk to 0"},
	{"home", "engine", checkHome, "put the engine's data folder on xfs mounted with pquota, or set docker home to 0"},
	{"space", "engine", checkSpace, "look at the disk of the engine's data folder with df"},
	{"owners", "engine", checkOwners, ""},
	{"hosts", "", checkHosts, ""},
}

// checksFor returns the checks that concern the installation's backend: those of a cluster
// are for Kubernetes, and those of a container engine for Docker.
func checksFor(o coordinator.Options) []check {
	if o.Kubernetes == nil {
		return checks
	}
	engine := slices.IndexFunc(checks, func(c check) bool { return c.name == "engine" })
	general := slices.DeleteFunc(slices.Clone(checks), func(c check) bool { return c.name == "engine" || c.needs == "engine" })
	return slices.Insert(general, engine, kubernetesChecks...)
}

const (
	// fullShare is the share of a network's addresses in use from which it is nearly full.
	fullShare = 0.8
)

// compare compares the clock of a server, which was asked between two moments, with ours.
func compare(server string, before, theirs, after time.Time) finding {
	skew := clock.Skew(before, theirs, after).Abs()
	if skew > clock.LargestSkew {
		return warning("synchronise the clocks of both machines (NTP)", "the clock of %s differs by %s from this machine's", server, skew.Round(time.Second))
	}
	return ok("%s answers, and its clock is right", server)
}

func checkDatabase(ctx context.Context, p patient) ([]finding, error) {
	db, err := store.Open(p.Options.Database, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var pooler *postgres.PoolerError
	if err := db.Ping(ctx); errors.As(err, &pooler) {
		return []finding{problem(postgres.PoolerRemedy, "%s", pooler.Problem())}, nil
	} else if err != nil {
		return nil, err
	}
	before := p.now()
	theirs, err := db.Now(ctx)
	if err != nil {
		return nil, err
	}
	found := []finding{compare("PostgreSQL", before, theirs, p.now())}
	r, err := db.Release(ctx)
	if err != nil {
		return nil, err
	}
	return append(found, schema(r)...), nil
}

// schema compares what this release knows of the database's schema with what that asks for.
// There is nothing to say of one that is older, or of none: the start brings it up to date.
func schema(r postgres.Release) []finding {
	const remedy = "upgrade this process to the release of the others"
	switch {
	case r.MayServe() != nil:
		return []finding{problem(remedy, "%s", r.MayServe())}
	case r.MayLead() != nil:
		return []finding{warning(remedy, "%s", r.MayLead())}
	case r.Schema > r.Known:
		return []finding{warning(remedy, "the schema of the database is at version %d, and this release knows version %d: it leads and serves as before", r.Schema, r.Known)}
	}
	return nil
}

func checkRedis(ctx context.Context, p patient) ([]finding, error) {
	o, err := redis.ParseURL(p.Options.Redis)
	if err != nil {
		return nil, errors.New("the address cannot be understood") // it may hold a password
	}
	logging.Disable() // the finding says it
	client := redis.NewClient(o)
	defer client.Close()
	before := p.now()
	theirs, err := client.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	return []finding{compare("Redis", before, theirs, p.now())}, nil
}

func checkArchives(ctx context.Context, p patient) ([]finding, error) {
	s, err := archive.New(p.Options.Archive)
	if err != nil {
		return nil, err
	}
	if found, err := whoseBucket(ctx, p, s); found != nil || err != nil {
		return found, err
	}
	var found []finding
	for _, f := range s.Check(ctx) {
		level := problem
		switch {
		case errors.Is(f.Err, archive.ErrNoBucket):
			f.Remedy = "start Caddy once: it creates the bucket; or check s3 bucket, endpoint and path_style"
			level = warning
		case f.Weak:
			level = warning
		}
		found = append(found, level(f.Remedy, "%s", command.OneLine(f.Text)))
	}
	if len(found) == 0 {
		found = []finding{ok("the bucket can be listed, written, read and cleared, and the store keeps the conditions of writes")}
	}
	return found, nil
}

// whoseBucket returns why nothing may be written to the bucket, not even to try it: it is
// another installation's, or that is not known. A bucket that cannot be read is tried: the
// check begins with reading, and says what is wrong.
func whoseBucket(ctx context.Context, p patient, s *archive.Store) ([]finding, error) {
	db, err := store.Open(p.Options.Database, postgres.Options{})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	if _, err := db.Identities(ctx); err != nil {
		return []finding{warning("mend database first", "not tried: only the database says whether the bucket is this installation's")}, nil
	}
	var other *identity.MismatchError
	if errors.As(identity.New(db, nil, s, p.Options.Installation(), zap.NewNop()).LookAtBucket(ctx), &other) {
		return []finding{problem("look at s3 endpoint, bucket and prefix, or accept it", "%s", command.OneLine(other.Error()))}, nil
	}
	return nil, nil
}

func checkEngine(ctx context.Context, p patient) ([]finding, error) {
	before := p.now()
	e, err := p.engine.Engine(ctx)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("Docker %s (%s)", e.Version, e.Driver)
	found := []finding{ok("%s answers", name)}
	if !e.Now.IsZero() {
		found[0] = compare(name, before, e.Now, p.now())
	}
	if e.Rootless && p.Options.Docker.Publish != "loopback" {
		found = append(found, problem("set docker publish loopback (CODEHUB_PUBLISH)", "the engine has a network of its own (rootless, or in a virtual machine), where containers cannot be reached at their addresses"))
	}
	return found, nil
}

func checkImages(ctx context.Context, p patient) ([]finding, error) {
	missing, err := p.engine.MissingImages(ctx)
	var found []finding
	for _, ref := range missing {
		found = append(found, warning("docker pull "+ref+", or make images", "image %s is not here; the first start waits for it to be pulled", ref))
	}
	var unfit *workspace.PendingError
	switch jobs := p.engine.JobImage(ctx); {
	case errors.As(jobs, &unfit):
		found = append(found, problem("it goes on by itself when the image is there", "nothing is archived or restored, and no firewall rules are made: %v", jobs))
	case err == nil:
		err = jobs
	}
	if len(found) == 0 && err == nil {
		found = []finding{ok("the images of workspaces and of storage jobs are here")}
	}
	return found, err
}

func checkNetwork(ctx context.Context, p patient) ([]finding, error) {
	n, err := p.engine.Network(ctx)
	if err != nil {
		return nil, err
	}
	if !n.Exists {
		return []finding{ok("network %s is made with the first workspace", n.Name)}, nil
	}
	var found []finding
	if size := 1<<max(32-n.Subnet.Bits(), 0) - 3; n.Subnet.IsValid() { // network, broadcast, gateway
		line := fmt.Sprintf("network %s: %d of the %d addresses in %s are in use", n.Name, n.Used, size, n.Subnet)
		switch {
		case p.Live.Limits.Global > size:
			found = append(found, problem("remove the network while no workspace runs, and let a larger one be made, or lower limits max_running_global",
				"%s, and %d workspaces may run (limits max_running_global)", line, p.Live.Limits.Global))
		case float64(n.Used) > fullShare*float64(size):
			found = append(found, warning("use a network with a larger subnet", "%s", line))
		default:
			found = append(found, ok("%s", line))
		}
	}
	if !n.Isolated {
		found = append(found, warning("remove the network while no workspace runs: CodeHub makes one whose containers are isolated (enable_icc=false); or keep it, if the rules of egress stand",
			"network %s lets its containers reach one another", n.Name))
	}
	return found, nil
}

func checkEgress(ctx context.Context, p patient) ([]finding, error) {
	if e := p.Options.Docker.Egress.Enforce; e == "" || e == egress.EnforceOpen {
		return []finding{warning("egress enforce auto or require closes it", "by the setting egress enforce, workspaces may reach private networks, this host and the metadata service")}, nil
	}
	e, err := p.engine.Egress(ctx)
	var missing *backend.MissingImageError
	switch {
	case errors.As(err, &missing):
		return []finding{problem("docker pull "+missing.Image+", or make images", "the image that makes the firewall rules, %s, is not here", missing.Image)}, nil
	case err != nil:
		return nil, err
	case e.Unable != nil && !e.Decided && p.Options.Docker.Egress.Enforce == egress.EnforceAuto:
		return []finding{problem("use an engine that lets a container administer its host's network; egress enforce require starts nothing without rules, and open says that this is as it should be",
			"this engine cannot have firewall rules, so that workspaces run without and may reach private networks and this host: %v", e.Unable)}, nil
	case e.Unable != nil:
		return []finding{problem("let a container administer the network of the engine's host again; or have auto decide anew with caddy codehub egress remove, or write egress enforce open",
			"the firewall rules cannot be made, and nothing starts without them: %v", e.Unable)}, nil
	case !e.Stand:
		return []finding{problem("start Caddy: it makes them within a minute; its log says why if it cannot", "the firewall rules do not stand: workspaces that run may reach private networks and this host; none starts before they stand")}, nil
	}
	names := make([]string, len(e.Nameservers))
	for i, a := range e.Nameservers {
		names[i] = a.String()
	}
	open := "nothing private"
	if len(names) > 0 {
		open = "port 53 of " + strings.Join(names, ", ")
	}
	return []finding{ok("the firewall rules stand; for names they leave open %s", open)}, nil
}

func checkIsolation(ctx context.Context, p patient) ([]finding, error) {
	n, err := p.engine.Network(ctx)
	if err != nil {
		return nil, err
	}
	if !n.Exists {
		return []finding{ok("nothing to look at before the first workspace has started")}, nil
	}
	open, err := p.engine.Reached(ctx)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, address := range slices.Sorted(maps.Keys(open)) {
		found = append(found, problem("set egress enforce require, and see the line of egress", "a workspace can connect to %s: %s", address, open[address]))
	}
	if len(found) == 0 {
		found = []finding{ok("a workspace reaches neither the metadata service nor another container nor the usual ports of the engine's host")}
	}
	return found, nil
}

func checkDisk(ctx context.Context, p patient) ([]finding, error) {
	err := p.engine.DiskLimit(ctx)
	if p.Options.Docker.DiskBytes == 0 {
		return []finding{unlimited("disk", "what workspaces write outside their homes is not limited", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	return []finding{ok("the engine limits what workspaces write outside their homes")}, nil
}

func checkHome(ctx context.Context, p patient) ([]finding, error) {
	before, err := p.engine.HomeLimit(ctx)
	if p.Options.Docker.HomeBytes == 0 {
		return []finding{unlimited("home", "homes are not limited", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	found := []finding{ok("the engine limits new homes")}
	if before > 0 {
		found = append(found, warning("archive those workspaces: their homes are limited when they are restored", "%s made before without a limit", command.Count(before, "home")))
	}
	return found, nil
}

// unlimited warns of a limit that is not set, with what the engine says when it is tried.
func unlimited(setting, what string, tried error) finding {
	switch {
	case errors.Is(tried, spec.ErrCannotLimit):
		return warning("put the engine's data folder on xfs mounted with pquota, then set docker "+setting,
			"%s, and this engine cannot limit it: one workspace can fill the disk of all", what)
	case tried != nil:
		return warning("set docker "+setting+", where the engine can enforce it", "%s", what)
	}
	return warning("set docker "+setting+", such as 10GiB", "%s, although this engine can", what)
}

func checkSpace(ctx context.Context, p patient) ([]finding, error) {
	d, err := p.engine.Space(ctx)
	var missing *backend.MissingImageError
	switch {
	case errors.As(err, &missing):
		return []finding{warning("docker pull "+missing.Image+", or make images", "how full the disk of the homes is cannot be asked without image %s", missing.Image)}, nil
	case err != nil:
		return nil, err
	}
	line := fmt.Sprintf("%.0f%% of the disk of the homes is in use, %s are free", d.Used()*100, units.BytesSize(float64(d.Free)))
	s := p.Live.Pressure
	const remedy = "free space there, or make the disk larger; the settings are those of disk_pressure"
	switch {
	case s.StopAt > 0 && d.Used() >= s.StopAt:
		return []finding{problem(remedy, "%s: new workspaces and restores wait", line)}, nil
	case s.ArchiveAt > 0 && d.Used() >= s.ArchiveAt:
		return []finding{warning(remedy, "%s: the workspaces that sleep longest are archived before their time", line)}, nil
	case s.ArchiveAt == 0 && d.Used() >= pressure.DefaultArchiveAt:
		return []finding{warning("set disk_pressure archive_at, or free space", "%s, and nothing makes room by itself", line)}, nil
	}
	return []finding{ok("%s", line)}, nil
}

// mostOwners is how many workspaces doctor looks at.
const mostOwners = 20

func checkOwners(ctx context.Context, p patient) ([]finding, error) {
	strangers, looked, err := p.engine.Strangers(ctx, mostOwners)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, s := range strangers {
		found = append(found, warning("give the workspace an image that runs as the home's owner, or change the owner of its files on the engine's host",
			"the image of %s runs as %s, and its home belongs to %s: it cannot write there", s.Container, s.User, s.Owner))
	}
	if len(found) == 0 {
		found = []finding{ok("every image can write to its home, in the %s that run", command.Count(looked, "workspace"))}
	}
	return found, nil
}

func checkHosts(ctx context.Context, p patient) ([]finding, error) {
	site := p.Options.Site
	if !site.PerHost {
		return []finding{warning("set workspace_url host, with a wildcard name", "workspaces are at paths of the main site and share its origin: what runs in one can act for its owner on the dashboard")}, nil
	}
	name := "ws-00000000-0000-4000-8000-000000000000." + site.Domain
	if site.Domain == "localhost" || strings.HasSuffix(site.Domain, ".localhost") {
		return []finding{ok("browsers resolve every name below localhost to this machine")}, nil
	}
	addresses, err := net.DefaultResolver.LookupHost(ctx, name)
	if err != nil {
		// Only browsers use these names, and they may ask other name servers than this machine,
		// which may be a Pod.
		return []finding{warning("if browsers do not resolve them either, add a wildcard record of the domain to DNS, or set workspace_url path",
			"names below %s do not resolve on this machine: %s", site.Domain, command.OneLine(err.Error()))}, nil
	}
	return []finding{ok("names below %s resolve to %s", site.Domain, strings.Join(addresses, ", "))}, nil
}
