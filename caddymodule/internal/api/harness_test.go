package api_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/wait"
)

const (
	testPassword = "correct horse battery"
	sessionTTL   = 5 * time.Hour
)

// harness is a test server with the API and a real PostgreSQL. No controller runs, so workspaces stay as the test sets
// them. Redis is down, so changes reach event streams through notifications of PostgreSQL.
type harness struct {
	t      testing.TB
	server *httptest.Server
	store  *store.Store
	db     *pgx.Conn
	auth   *auth.Auth
	hub    *events.Hub
	feed   *changes.Feed
	// inventory is the observed state of every workspace, as the service gets it.
	inventory *inventory
}

// newHarness starts the API; the functions may change the options first. Requests that the API
// hands on are answered with "next".
func newHarness(t *testing.T, change ...func(*api.Options)) *harness {
	t.Helper()
	t.Parallel()
	return newSerialHarness(t, change...)
}

// newSerialHarness is newHarness for a test that already runs in parallel.
func newSerialHarness(t testing.TB, change ...func(*api.Options)) *harness {
	t.Helper()
	dsn := storetest.Migrated(t)
	st, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	in := &harness{
		t: t, store: st, db: db,
		inventory: new(inventory),
	}
	in.serve(change...)
	if _, err := in.auth.EnsureUser(t.Context(), "admin", testPassword, auth.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	return in
}

// another starts the API of a second process on the same database.
func (in *harness) another(change ...func(*api.Options)) *harness {
	in.t.Helper()
	other := &harness{t: in.t, store: in.store, db: in.db, inventory: in.inventory}
	other.serve(change...)
	return other
}

// serve starts the API.
func (in *harness) serve(change ...func(*api.Options)) {
	t, st := in.t, in.store
	t.Helper()
	in.auth, in.hub = auth.New(accounts.New(st.DB), auth.Options{SessionTTL: sessionTTL}), events.NewHub()
	t.Cleanup(in.auth.Close)
	in.listen(st)

	workspaces := service.New(st, service.Options{InstanceBackend: "docker", StorageBackend: "docker", Delays: explain.Delays{Standby: time.Hour}, Logger: zap.NewNop(), Inventory: in.inventory})
	workspaces.SetLimits(service.Limits{PerUser: 2, Global: 100})
	options := apitest.Options(api.Options{
		Site:    site.New(site.Options{MainHost: apitest.Host}),
		Service: workspaces, Auth: in.auth, Hub: in.hub, Audit: auditlog.New(st.DB, zap.NewNop()), Usage: usage.New(st.DB),
		Administration: administration{st, nil},
	})
	options.Health = func() coordinator.Health {
		return coordinator.Health{NodeID: "here", Uptime: 90 * time.Second, Problems: []string{"the bucket is another one"}}
	}
	for _, f := range change {
		f(&options)
	}
	handler, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	in.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handler.Serve(w, r, func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "next")
			return err
		})
		if err != nil { // the server's own error page
			http.Error(w, "error page: "+err.Error(), problem.Of(err).Status)
		}
	}))
	t.Cleanup(in.server.Close)
}

// listen passes PostgreSQL's notifications to auth, and the changes that they announce to the hub, until the test ends.
func (in *harness) listen(st *store.Store) {
	in.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan struct{})
	in.feed = changes.New(st, changes.Options{}, zap.NewNop())
	in.feed.Subscribe(in.hub)
	in.feed.OnPassed(in.hub.Passed)
	fed := make(chan error, 1)
	go func() { fed <- in.feed.Run(ctx) }()
	go func() {
		defer close(ended)
		_ = st.Listen(ctx, func() { close(listening) }, func(n postgres.Notification) {
			if n.Channel == postgres.ChannelRevoked {
				in.auth.Revoked(n.SessionID)
				return
			}
			in.feed.Refresh(n.WorkspaceID)
		})
	}()
	in.t.Cleanup(func() { cancel(); <-ended; <-fed })
	select {
	case <-listening:
	case <-time.After(wait.Timeout):
		in.t.Fatal("no connection for notifications")
	}
}

func (in *harness) exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatal(err)
	}
}

func (in *harness) anyone() *apitest.Client {
	return &apitest.Client{T: in.t, Host: apitest.Host, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", in.server.Listener.Addr().String())
	}}
}

// signedIn adds a user, unless it is admin, and signs in.
func (in *harness) signedIn(name string) *apitest.Client {
	in.t.Helper()
	if name != "admin" {
		if _, err := in.auth.AddUser(in.t.Context(), name, testPassword, auth.RoleUser); err != nil {
			in.t.Fatal(err)
		}
	}
	c := in.anyone()
	c.SignIn(name, testPassword)
	return c
}
