// Package gatewaytest provides tests with everything that a gateway needs behind it: workspaces in any state, a service
// layer that grants or refuses, sessions, activity in a real Redis, and applications to proxy to.
//
// It owns the behaviour of these stand-ins. Only tests may import it, and it must not contain rules of the gateway.
package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Two workspaces of the user alice, and the prefixes of their addresses.
const (
	One     = workspace.ID("0123abcd-0000-4000-8000-00000000000a")
	Two     = workspace.ID("0123abcd-0000-4000-8000-00000000000b")
	OnePath = "/w/" + string(One)
	TwoPath = "/w/" + string(Two)
	// OneHost is the host of a workspace's own origin, without a port.
	OneHost = "ws-" + string(One) + ".localhost"
	TwoHost = "ws-" + string(Two) + ".localhost"
)

// UserHeader names the user of a request; see [Product.Identity].
const UserHeader = "X-Test-User"

// Product stands for the rest of the product behind a gateway: it fills the route table, and is the service layer and
// the sessions.
type Product struct {
	// Table, Wakes and Activity are the real implementations. They get their data from this Product.
	Table    *route.Table
	Wakes    *activator.Activator
	Activity *activity.Buffer

	t     testing.TB
	redis *redis.Client

	mu      sync.Mutex
	rows    map[workspace.ID]store.Route
	away    bool
	refused error
	actors  []service.Actor
	askers  []audit.Actor
	running []workspace.Workspace
	tokens  map[string]string // token → user id
	clock   time.Time
	pages   int
	kept    map[workspace.ID]time.Duration

	revision int64
}

// New returns a product without workspaces, which ends with the test.
func New(t testing.TB) *Product {
	t.Helper()
	p := &Product{
		t: t, rows: map[workspace.ID]store.Route{}, tokens: map[string]string{},
		kept: map[workspace.ID]time.Duration{}, clock: time.Unix(1_000_000, 0),
	}
	p.Table = route.New(p, route.Options{}, zap.NewNop())
	p.Wakes = activator.New(p.Table, p, nil, tracing.Off(), zap.NewNop())
	options, err := redis.ParseURL(devenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	p.redis = redis.NewClient(options)
	p.Activity = activity.NewBuffer(p.redis, activity.Options{Now: p.now, Used: p.Wakes.Used}, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { p.Table.Run(ctx) })
	run.Go(func() { _ = p.Wakes.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait(); _ = p.redis.Close() })
	<-p.Table.Loaded()
	return p
}

// Identity signs in the user that the header [UserHeader] names. The user "database
// away" stands for a session that cannot be checked.
func (p *Product) Identity(r *http.Request, _ *site.Address) (auth.Grant, error) {
	user := r.Header.Get(UserHeader)
	if user == "database away" {
		return auth.Grant{}, errors.New("the database does not answer")
	}
	return auth.Grant{User: auth.User{ID: user}}, nil
}

// Secret is the secret of an access token of alice whose scope includes workspaces. NarrowSecret is the secret of a
// token whose scope does not include them. AwaySecret stands for a token that cannot be checked.
const (
	Secret       = auth.TokenPrefix + "workspace"
	NarrowSecret = auth.TokenPrefix + "read"
	AwaySecret   = auth.TokenPrefix + "away"
)

// Token accepts these secrets.
func (p *Product) Token(_ *http.Request, secret string) (auth.Grant, error) {
	switch secret {
	case Secret:
		return auth.Grant{User: auth.User{ID: "alice"}}, nil
	case NarrowSecret:
		return auth.Grant{}, &auth.ScopeError{Needs: auth.ScopeWorkspace}
	case AwaySecret:
		return auth.Grant{}, errors.New("the database does not answer")
	}
	return auth.Grant{}, auth.ErrBadToken
}

func (p *Product) now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.clock
}

// Away makes the database of the route table fail. Called with false, it makes the database answer again.
func (p *Product) Away(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
}

// Routes implements the source of the route table.
func (p *Product) Routes(_ context.Context, ids []workspace.ID) ([]store.Route, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.away {
		return nil, errors.New("the database does not answer")
	}
	var out []store.Route
	for _, id := range ids {
		if row, ok := p.rows[id]; ok {
			out = append(out, row)
		}
	}
	return out, nil
}

// AwakeRoutes implements the source of the route table. It is empty when a test begins; later
// changes reach the table through [Product.Change].
func (p *Product) AwakeRoutes(context.Context, workspace.ID, int) ([]store.Route, error) {
	return nil, nil
}

// Change changes a workspace's row and tells the route table. If the workspace does not exist yet, Change first creates
// one that belongs to alice, sleeps, and is called "My <work>".
func (p *Product) Change(id workspace.ID, f func(*store.Route)) {
	p.t.Helper()
	p.mu.Lock()
	row, ok := p.rows[id]
	if !ok {
		row = store.Route{
			ID: id, OwnerID: "alice", Name: "My <work>", Operation: workspace.OpNone,
			Desired: workspace.DesiredStandby, Phase: workspace.PhaseStandby,
		}
	}
	before := row
	f(&row)
	if row.Phase != before.Phase {
		p.clock = p.clock.Add(time.Second)
		row.PhaseChangedAt = p.clock
	}
	p.write(row)
	row = p.rows[id]
	p.mu.Unlock()
	p.Table.Changed([]store.Route{row}, 0)
}

// write keeps a row with a new revision; p.mu is held.
func (p *Product) write(row store.Route) {
	p.revision++
	row.Revision = p.revision
	p.rows[row.ID] = row
}

// Run makes the workspace RUNNING with the given application.
func (p *Product) Run(id workspace.ID, app *httptest.Server) {
	p.t.Helper()
	p.Change(id, func(r *store.Route) {
		r.Phase, r.Desired, r.Operation = workspace.PhaseRunning, workspace.DesiredRunning, workspace.OpNone
		r.Endpoint = app.Listener.Addr().String()
	})
}

// SetDesired implements the method of the service layer. Only the desired state RUNNING
// is refused: a limit forbids nothing else.
func (p *Product) SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	a.Asked = 0 // which differs each time
	p.actors, p.askers = append(p.actors, a), append(p.askers, audit.Of(ctx))
	if p.refused != nil && d == workspace.DesiredRunning {
		return p.refused
	}
	row := p.rows[id]
	row.Desired, row.DozeAt = d, time.Time{}
	p.write(row)
	for i := range p.running {
		if p.running[i].ID == id {
			p.running[i].DesiredState = d
		}
	}
	return nil
}

// Actors returns the actors that set the desired state, in order.
func (p *Product) Actors() []service.Actor {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]service.Actor(nil), p.actors...)
}

// Asker returns the audit's actor of the last change of the desired state.
func (p *Product) Asker() (last audit.Actor) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.askers); n > 0 {
		last = p.askers[n-1]
	}
	return last
}

// Woken reports whether a desired state was ever set.
func (p *Product) Woken() bool { return len(p.Actors()) > 0 }

// Refuse makes the service layer answer with err; nil grants again.
func (p *Product) Refuse(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = err
}

// Desired returns the workspace's desired state.
func (p *Product) Desired(id workspace.ID) workspace.DesiredState {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rows[id].Desired
}

// SetRunning sets the workspaces that count against the limits.
func (p *Product) SetRunning(w ...workspace.Workspace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = w
}

// Running implements the method of the service layer.
func (p *Product) Running(_ context.Context, user string) ([]workspace.Workspace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if user != "alice" {
		return nil, nil
	}
	return append([]workspace.Workspace(nil), p.running...), nil
}

// SetPageActivity implements the method of the service layer.
func (p *Product) SetPageActivity(_ context.Context, id workspace.ID, activity workspace.PageActivity) error {
	p.mu.Lock()
	row, ok := p.rows[id]
	if ok && row.PageActivity != activity {
		row.PageActivity = activity
		p.write(row)
		row = p.rows[id]
		p.pages++
	}
	p.mu.Unlock()
	p.Table.Changed([]store.Route{row}, 0)
	return nil
}

// PageWrites returns how often [Product.SetPageActivity] has changed a row.
func (p *Product) PageWrites() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pages
}

// KeptAwake returns how long the owner wants the workspace awake.
func (p *Product) KeptAwake(id workspace.ID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kept[id]
}

// KeepAwake implements the method of the service layer.
func (p *Product) KeepAwake(
	_ context.Context, _ service.Actor, id workspace.ID, d time.Duration,
) (workspace.Workspace, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[id] = d
	return workspace.Workspace{ID: id}, nil
}

// MaxKeepAwake implements the method of the service layer.
func (p *Product) MaxKeepAwake() time.Duration { return 8 * time.Hour }

// WorkCap implements the method of the service layer.
func (p *Product) WorkCap() time.Duration { return 12 * time.Hour }

// Browser is the secret of the browser in which tickets can be redeemed.
const Browser = "browser-browser-browser-browser-browser-b01"

// Ticket returns a ticket of alice's for the workspace. It can be redeemed any number of times; the tests of package
// auth check that a real ticket cannot.
func Ticket(id workspace.ID) string { return "ticket-" + string(id) }

// Redeem implements the method of package auth.
func (p *Product) Redeem(_ context.Context, ticket, browser string, id workspace.ID) (string, error) {
	if ticket != Ticket(id) || browser != Browser {
		return "", auth.ErrBadTicket
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens["token-"+string(id)] = "alice"
	return "token-" + string(id), nil
}

// SignOut ends all sessions on workspaces' own hosts.
func (p *Product) SignOut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.tokens)
}

// WorkspaceSession implements the method of package auth.
func (p *Product) WorkspaceSession(_ context.Context, token string, id workspace.ID) (auth.Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if token != "token-"+string(id) || p.tokens[token] == "" {
		return auth.Grant{}, auth.ErrNoSession
	}
	return auth.Grant{User: auth.User{ID: p.tokens[token]}}, nil
}

// Used reports whether Redis has recorded a use of the workspace since the last call of Used. It first advances the
// clock by a minute, so that uses since the last call are a minute old, and earlier uses are older.
func (p *Product) Used(id workspace.ID) bool {
	p.t.Helper()
	ctx := context.Background()
	if err := p.redis.ZRem(ctx, activity.DefaultKey, string(id)).Err(); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.clock = p.clock.Add(time.Minute)
	p.mu.Unlock()
	if err := p.Activity.Flush(ctx); err != nil {
		p.t.Fatal(err)
	}
	now, err := p.redis.Time(ctx).Result()
	if err != nil {
		p.t.Fatal(err)
	}
	at, err := p.redis.ZScore(ctx, activity.DefaultKey, string(id)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		p.t.Fatal(err)
	}
	age := now.Sub(time.UnixMilli(int64(at)))
	return 30*time.Second < age && age < 90*time.Second
}

// WaitHeld waits until n requests are held.
func (p *Product) WaitHeld(n int64) {
	p.t.Helper()
	wait.Until(p.t, fmt.Sprintf("%d requests are held", n), func() bool { return p.Wakes.Held() == n })
}

// Echo is an application that answers with the request it has received.
func Echo(t testing.TB) *httptest.Server {
	return App(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s host=%s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(w)
		fmt.Fprintf(w, "\n%s", b)
	})
}

// EchoWebSocket is an application that sends back every message of a WebSocket except "silence". It sends to pinged,
// unless that is nil, for every ping.
func EchoWebSocket(t testing.TB, pinged chan<- struct{}) *httptest.Server {
	options := &websocket.AcceptOptions{OnPingReceived: func(context.Context, []byte) bool {
		if pinged != nil {
			pinged <- struct{}{}
		}
		return true
	}}
	return App(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, options)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil {
				return
			}
			if string(msg) == "silence" {
				continue
			}
			if c.Write(r.Context(), kind, msg) != nil {
				return
			}
		}
	})
}

// App starts an application that has a loopback address of its own, as a container has. When the application is closed,
// no server of another test answers at this address.
func App(t testing.TB, serve http.HandlerFunc) *httptest.Server {
	t.Helper()
	address := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(serve)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// Kill closes an application, and waits until its address refuses connections. This takes a moment if a child process
// that is just starting still holds the socket.
func Kill(t testing.TB, app *httptest.Server) {
	t.Helper()
	app.Close()
	wait.Until(t, "connections are refused", func() bool {
		c, err := net.Dial("tcp", app.Listener.Addr().String())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
}
