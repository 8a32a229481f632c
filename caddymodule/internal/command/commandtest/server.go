package commandtest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Password is the password of every user of a [Server].
const Password = "correct horse battery"

// Server is a running server's API over a database. There is no leader: workspaces stay as the test sets them.
type Server struct {
	URL string
	// Engine has the containers.
	Engine *memory.Backend

	t    *testing.T
	auth *auth.Auth
	db   *pgx.Conn
}

// NewServer starts a server that ends with the test, and gives the commands a configuration of their own.
func NewServer(t *testing.T) *Server {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dsn := storetest.Migrated(t)
	st, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	s := &Server{t: t, auth: auth.New(accounts.New(st.DB), auth.Options{})}
	t.Cleanup(s.auth.Close)
	if s.db, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close(context.Background()) })
	engine := memory.NewEngine()
	t.Cleanup(engine.Close)
	s.Engine = engine.Backend("test")
	workspaces := service.New(st, service.Options{InstanceBackend: "docker", StorageBackend: "docker", Logger: zap.NewNop()})
	workspaces.SetImages(launch.Catalog{{Name: launch.DefaultName, Git: true}})
	options := apitest.Options(api.Options{
		Site: site.New(site.Options{}), Auth: s.auth, Audit: auditlog.New(st.DB, zap.NewNop()), Usage: usage.New(st.DB), Hub: events.NewHub(),
		Service: workspaces,
	})
	options.Containers = containers{s.Engine}
	handler, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// containers is an engine that does not know its disk and the sizes of its images.
type containers struct{ *memory.Backend }

func (containers) HomeDisk(context.Context) int64 { return -1 }

func (containers) ImageSizes(context.Context, []string) map[string]int64 { return nil }

// Start starts the container of a workspace.
func (s *Server) Start(id workspace.ID) {
	s.t.Helper()
	err := s.Engine.Provision(s.t.Context(), backend.VolumeSpec{ID: id, OpID: "op"})
	if err == nil {
		err = s.Engine.Start(s.t.Context(), backend.StartSpec{ID: id})
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// AddUser adds a user.
func (s *Server) AddUser(name, role string) {
	s.t.Helper()
	if _, err := s.auth.AddUser(s.t.Context(), name, Password, role); err != nil {
		s.t.Fatal(err)
	}
}

// Token creates an access token of a user.
func (s *Server) Token(user, name string, scopes ...auth.Scope) string {
	s.t.Helper()
	session, _, err := s.auth.Login(s.t.Context(), user, Password, auth.Client{})
	if err != nil {
		s.t.Fatal(err)
	}
	grant, err := s.auth.Grant(s.t.Context(), session)
	if err != nil {
		s.t.Fatal(err)
	}
	_, secret, err := s.auth.CreateToken(s.t.Context(), grant, name, scopes, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// SignedIn adds a user, and logs the commands in with the user's token.
func (s *Server) SignedIn(user string) {
	s.t.Helper()
	s.AddUser(user, auth.RoleUser)
	secret := s.Token(user, "cli", auth.ScopeWrite)
	Run(s.t, strings.NewReader(secret+"\n"), "login", s.URL).Want(s.t, 0, "Signed in at "+s.URL+" as "+user)
}

// Exec runs a statement on the database.
func (s *Server) Exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

// SignIns returns the number of sign-ins.
func (s *Server) SignIns() (n int) {
	s.t.Helper()
	if err := s.db.QueryRow(s.t.Context(), "SELECT count(*) FROM sessions WHERE name IS NULL").Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// NewStub starts a server that answers paths with fixed texts, until the test ends, and returns its address.
func NewStub(t *testing.T, answers map[string]string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[r.URL.Path])
	}))
	t.Cleanup(server.Close)
	return server.URL
}
