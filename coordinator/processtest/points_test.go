package processtest

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"net/http"
	"os"
	"os/signal"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// A point is a place in the program right before or right after a side effect. A side effect is a statement that
// writes, or a request that changes something on the engine or in the object store. A point's name is derived from the
// side effect, so that no point can be forgotten: TestPointsAreComplete finds a new side effect.

// trap is what happens to the process at a point.
type trap string

const (
	// trapKill kills the process right after the side effect: the side effect has happened, but the process does not
	// know.
	trapKill trap = "kill"
	// trapStop stops the process right before the side effect, which then happens
	// whenever the process is continued.
	trapStop trap = "stop"
)

// points intercepts the side effects of this process.
type points struct {
	report func(format string, args ...any) // to the harness
	armed  []string                         // the points at which the trap acts
	trap   trap
	claims claims

	mu      sync.Mutex
	reached map[string]bool // the functions that were reported
}

// before must be called right before a side effect. The function that it returns must be called after the side effect.
// stopped says that the process was stopped in between, so that the side effect comes late.
func (p *points) before(name string, reached []string) (after func(), stopped bool) {
	p.report("effect %s", name)
	hit := false
	p.mu.Lock()
	for _, f := range reached {
		if !p.reached[f] {
			p.reached[f] = true
			p.report("reached %s", f)
		}
	}
	if slices.Contains(p.armed, name) {
		hit = p.claims.take(name)
	}
	p.mu.Unlock()
	if hit && p.trap == trapStop {
		// The signal takes effect some time after it was sent. The process must do nothing in between.
		continued := make(chan os.Signal, 1)
		signal.Notify(continued, syscall.SIGCONT)
		p.report("hit %s", name)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-continued
	}
	return func() {
		switch {
		case hit && p.trap == trapKill:
			p.report("hit %s", name)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // until the signal arrives
		case hit:
			p.report("released %s", name)
		}
	}, hit && p.trap == trapStop
}

// transport names the requests of an HTTP client that change something.
type transport struct {
	*points
	server string // "engine" or "archive"
	next   http.RoundTripper
}

// wrap returns the function with which the coordinator wraps a transport.
func (p *points) wrap(server string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return transport{p, server, next} }
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexes = regexp.MustCompile(`[0-9a-f]{64}`)
	// The version of Docker's API, and the group, version and namespace in Kubernetes'.
	api = regexp.MustCompile(`^/(v1\.[0-9]+|(api|apis/[a-z.0-9]+)/v[0-9a-z]+(/namespaces/[a-z0-9-]+)?)`)
	// The rules of an installation in Kubernetes have a hash of its name.
	rules = regexp.MustCompile(`(networkpolicies/codehub)-[0-9a-f]{8}`)
	// A job's name in Kubernetes may end in a hash instead of the operation's id.
	jobs = regexp.MustCompile(`(ws-\*-(archive|restore))-[-*a-z0-9]+`)
	// A sandbox's name in Docker has the time when its workspace went to sleep or, once nothing may join the sandbox,
	// its id.
	sandboxes = regexp.MustCompile(`^(sandbox-\*-(retired-)?)[0-9a-f]+$`)
)

// checkObjects are the objects that the check of the object store writes at the start, at random names. The check
// concerns no workspace, and the next one removes leftovers.
const checkObjects = "/codehub-check/"

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	changesNothing := r.Method == http.MethodGet || r.Method == http.MethodHead || r.URL.Query().Has("dryRun") || strings.HasSuffix(r.URL.Path, "/wait")
	if changesNothing || strings.Contains(r.URL.Path, checkObjects) {
		return t.next.RoundTrip(r)
	}
	target := hexes.ReplaceAllString(uuids.ReplaceAllString(api.ReplaceAllString(r.URL.Path, ""), "*"), "*")
	target = rules.ReplaceAllString(jobs.ReplaceAllString(target, "$1-*"), "$1-*")
	if t.server == "archive" {
		_, target, _ = strings.Cut(strings.TrimPrefix(target, "/"), "/") // without the bucket
	}
	if name := r.URL.Query().Get("name"); name != "" {
		target += " " + sandboxes.ReplaceAllString(uuids.ReplaceAllString(name, "*"), "$1*")
	}
	name, reached := caller()
	if strings.Contains(name, "Check>") {
		return t.next.RoundTrip(r) // it removes what earlier checks have left
	}
	after, stopped := t.before(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", t.server, name, r.Method, target)), reached)
	if stopped {
		// Simulate a request that was on its way before the process was stopped: the end of the term cannot hold it
		// back any more.
		r = r.Clone(context.WithoutCancel(r.Context()))
	}
	res, err := t.next.RoundTrip(r)
	after()
	return res, err
}

// CloseIdleConnections makes the clients close their idle connections.
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

const product = "github.com/codehub/gateway/coordinator/"

// clientPackages are packages of the product. Each is a server's client, passes on a client's requests, or makes a
// request for a caller that names the object. They cause no side effects of their own.
var clientPackages = []string{"backend/kubernetes/cluster", "backend/kubernetes/internal/object", "backend/peer"}

// around are functions that wrap a function that causes a side effect. All functions of package guard are of this kind,
// too.
var around = []string{"archive.New", "archive.countingClient.Do", "backend.RetryChanged", "store/postgres.Select", "store/postgres.SelectOne",
	"store/postgres.(*DB).Exec", "store/postgres.collect"}

// caller names the product's code that causes a side effect: the innermost function of the product (the effect) and
// the outermost one in the same package (the purpose). It also returns all functions of the product on the stack,
// each with the method of the server's client that it calls, or "SQL".
func caller() (name string, reached []string) {
	var functions []string
	method := "SQL"
	pc := make([]uintptr, 1024)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		name, ok := strings.CutPrefix(f.Function, product)
		if ok && !strings.HasPrefix(name, "processtest") {
			// Closures have numbers that change. Where guard.Go is inlined, its closure is named after the caller's.
			name, _, _ = strings.Cut(strings.ReplaceAll(name, "[...]", ""), ".func")
			name = strings.TrimSuffix(name, ".Go")
			if slices.Contains(clientPackages, packageOf(name)) {
				if f := functionOf(name); len(functions) == 0 && ast.IsExported(f) && strings.Contains(name, ".(*") {
					method = f
				}
				continue
			}
			if packageOf(name) == "guard" || slices.Contains(around, name) {
				continue
			}
			if n := len(functions); n == 0 || functions[n-1] != name {
				functions, reached = append(functions, name), append(reached, name+" "+method)
			}
		} else if _, name, isMethod := strings.Cut(f.Function, ".(*Client)."); isMethod && len(functions) == 0 && ast.IsExported(name) {
			method = name
		}
		if !more {
			break
		}
	}
	if len(functions) == 0 {
		return "-", nil
	}
	inner, outer := functions[0], functions[0]
	for _, f := range functions {
		if packageOf(f) != packageOf(inner) {
			break
		}
		outer = f
		if strings.HasSuffix(f, ".(*Backend).removeFinalizer") {
			break // the first process to see that a Pod has ended differs from run to run
		}
	}
	name = path.Base(packageOf(inner)) + " " + functionOf(outer)
	// A method of store.Limited has the name of the method of store.Store that it calls.
	limited := strings.HasPrefix(outer, "store.Limited.") && strings.EqualFold(functionOf(outer), functionOf(inner))
	if outer != inner && !limited {
		name += ">" + functionOf(inner)
	}
	return name, reached
}

// packageOf and functionOf split the name of a function: backend/docker.(*Docker).Start.
func packageOf(f string) string {
	dir, base := path.Split(f)
	base, _, _ = strings.Cut(base, ".")
	return dir + base
}

func functionOf(f string) string { return f[strings.LastIndexByte(f, '.')+1:] }

// tracer names the statements that write.
type tracer struct{ *points }

type tracerKey struct{}

var writes = regexp.MustCompile(`(?i)\b(INSERT\s+INTO|UPDATE\s+\w+\s+(\w+\s+)?SET|DELETE\s+FROM)\b`)

// isWrite reports whether the statement changes rows, other than those of migrations.
func isWrite(sql string) bool {
	return writes.MatchString(sql) && !strings.Contains(sql, "schema_version") && !strings.Contains(sql, "CREATE TABLE")
}

// start begins a point at a statement. If the process was stopped, the statement is sent late, and the end of the term
// cannot hold it back any more.
func (t tracer) start(ctx context.Context, args []any) context.Context {
	name, reached := caller()
	var named postgres.Args // they come to pgx as one argument
	if len(args) == 1 {
		named, _ = args[0].(postgres.Args)
	}
	switch {
	case strings.HasSuffix(name, " Save"):
		name += " " + transition(named)
	case strings.HasSuffix(name, " ExpireStandby"):
		// The cause is either that the workspace's time in STANDBY is over or that the disk is filling up.
		name += fmt.Sprintf(" %s", named["cause"])
	case strings.HasPrefix(name, "store") && len(args) > 0:
		if resource, ok := args[0].(string); ok && (resource == "backend" || resource == "bucket") {
			name += " " + resource
		}
	}
	after, stopped := t.before("database "+name, reached)
	if stopped {
		ctx = context.WithoutCancel(ctx)
	}
	return context.WithValue(ctx, tracerKey{}, after)
}

// end ends the point that the context holds, if any.
func (t tracer) end(ctx context.Context) {
	if after, ok := ctx.Value(tracerKey{}).(func()); ok {
		after()
	}
}

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !isWrite(q.SQL) {
		return ctx
	}
	return t.start(ctx, q.Args)
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) { t.end(ctx) }

// TraceBatchStart implements [pgx.BatchTracer]: a batch is one transaction. Its first statement that writes describes it.
func (t tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	queries := b.Batch.QueuedQueries
	i := slices.IndexFunc(queries, func(q *pgx.QueuedQuery) bool { return isWrite(q.SQL) })
	if i < 0 {
		return ctx
	}
	return t.start(ctx, queries[i].Arguments)
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (t tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd implements [pgx.BatchTracer].
func (t tracer) TraceBatchEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchEndData) { t.end(ctx) }

// refresh is the name of saves that change neither phase nor operation, record no archive, and decide nothing about the
// home or about which container is frozen. Such saves depend on the time of observations and differ from run to run. So
// they do not count as points.
const refresh = "database store Save refresh"

// transition describes a save by the row's values before and after it.
func transition(args postgres.Args) string {
	desired := args["desired_state"]
	if args["was_phase"] == "ERROR" || args["phase"] == "ERROR" {
		desired = "-" // it is changed by people while the error is found, and after it
	}
	description := fmt.Sprintf("%s %s %s %s %s",
		args["was_operation"], desired, args["was_phase"], args["phase"], args["operation"])
	if args["was_phase"] != args["phase"] || args["was_operation"] != args["operation"] {
		return description
	}
	if decision := decided(args); decision != "" {
		return description + " " + decision
	}
	return "refresh"
}

// decided names the decision in a save that changes neither phase nor operation. The save may decide that the home has
// its archive, that an older archive becomes the current one, or that this container may be frozen. It may also decide
// that the volume may be removed because the previous archive has its content.
func decided(args postgres.Args) string {
	op, key := args["archive_op_id"].(*string), args["archive_key"].(*string)
	changed := args["home_ctx"].(map[string]json.RawMessage)
	_, goesBack := changed["revert_id"]
	_, dozes := changed["dozed"]
	switch {
	case op != nil && key != nil && strings.Contains(*key, *op):
		return "with its archive"
	case goesBack:
		return "goes back"
	case dozes:
		return "dozes"
	case args["operation"] == "ARCHIVING" && slices.Contains(args["home_ctx_gone"].([]string), "dirty"):
		return "unchanged"
	}
	return ""
}
