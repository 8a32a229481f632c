package processtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// A point is a place in the program right before or right after one side effect: a
// statement that writes, or a request that changes something on the engine or in the
// object store. Its name is the side effect's, so that no point can be forgotten: a
// side effect that is added to the program is found by the test that records them.

// trap is what happens to the process at a point.
type trap string

const (
	// trapKill kills the process right after the side effect: it has happened, and the
	// process does not know.
	trapKill trap = "kill"
	// trapStop stops the process right before the side effect, which then happens
	// whenever the process is continued.
	trapStop trap = "stop"
)

// points intercepts the side effects of this process.
type points struct {
	report func(format string, args ...any) // to the harness
	armed  string                           // the point at which the trap acts, once
	trap   trap

	mu   sync.Mutex
	done bool
}

// before is called before a side effect, and the returned function after it.
func (p *points) before(name string) (after func()) {
	p.report("effect %s", name)
	hit := false
	p.mu.Lock()
	if name == p.armed && !p.done {
		p.done, hit = true, true
	}
	p.mu.Unlock()
	if hit && p.trap == trapStop {
		p.report("hit %s", name)
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
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
	}
}

// transport names the requests of an HTTP client that change something.
type transport struct {
	*points
	server string // "engine" or "archive"
	next   http.RoundTripper
}

// wrap is the form in which the coordinator takes a wrapped transport.
func (p *points) wrap(server string) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return transport{p, server, next} }
}

var (
	uuids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	hexes = regexp.MustCompile(`[0-9a-f]{64}`)
	api   = regexp.MustCompile(`^/v1\.[0-9]+`)
)

// RoundTrip implements [http.RoundTripper].
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return t.next.RoundTrip(r)
	}
	path := hexes.ReplaceAllString(uuids.ReplaceAllString(api.ReplaceAllString(r.URL.Path, ""), "*"), "*")
	if t.server == "archive" {
		_, path, _ = strings.Cut(strings.TrimPrefix(path, "/"), "/") // without the bucket
	}
	if name := r.URL.Query().Get("name"); name != "" {
		path += " " + uuids.ReplaceAllString(name, "*")
	}
	after := t.before(strings.TrimSpace(fmt.Sprintf("%s %s %s %s", t.server, caller(), r.Method, path)))
	res, err := t.next.RoundTrip(r)
	after()
	return res, err
}

// CloseIdleConnections lets the clients close what they keep open.
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// caller returns the product's function that makes the request: the innermost exported
// one of the product on the stack.
func caller() string {
	const product = "github.com/codehub/gateway/coordinator/"
	pc := make([]uintptr, 1024)
	frames := runtime.CallersFrames(pc[:runtime.Callers(2, pc)])
	for {
		f, more := frames.Next()
		if name, ok := strings.CutPrefix(f.Function, product); ok && !strings.HasPrefix(name, "processtest") {
			name, _, _ = strings.Cut(name, ".func") // closures have numbers that change
			return name
		}
		if !more {
			return "-"
		}
	}
}

// tracer names the statements that write.
type tracer struct{ *points }

type tracerKey struct{}

var writes = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE)\b[^;]*`)

// TraceQueryStart implements [pgx.QueryTracer].
func (t tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if !writes.MatchString(q.SQL) || strings.Contains(q.SQL, "schema_version") || strings.Contains(q.SQL, "CREATE TABLE") {
		return ctx
	}
	name := caller()
	if strings.HasSuffix(name, ".(*Store).Save") {
		name += " " + transition(q.Args)
	}
	return context.WithValue(ctx, tracerKey{}, t.before("database "+name))
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (t tracer) TraceQueryEnd(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryEndData) {
	if after, ok := ctx.Value(tracerKey{}).(func()); ok {
		after()
	}
}

// transition describes a save by the operations and phases among its arguments: the
// names are unique in the product.
func transition(args []any) string {
	var words []string
	for _, a := range args {
		if s, ok := a.(string); ok && word.MatchString(s) {
			words = append(words, s)
		}
	}
	return strings.Join(words, " ")
}

var word = regexp.MustCompile(`^[A-Z_]{4,}$`)
