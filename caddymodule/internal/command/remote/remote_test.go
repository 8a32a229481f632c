package remote_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { wait.Main(m) }

func TestLoginStoresTheTokenForThisUserOfTheMachine(t *testing.T) {
	s := commandtest.NewServer(t)
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "you are not logged in at a server: run caddy codehub login")
	s.SignedIn("ann")
	file := filepath.Join(os.Getenv("XDG_CONFIG_HOME"), "codehub", "login.json")
	info, err := os.Stat(file)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	commandtest.Run(t, strings.NewReader(s.Token("ann", "second", auth.ScopeRead)), "login", s.URL).Want(t, 0)
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("a second login leaves %v, %v", info, err)
	}
	commandtest.Run(t, nil, "token", "list").Want(t, 0, "SCOPES", "second\n", "cli\n")
	commandtest.Run(t, nil, "logout").Want(t, 0, "logged in nowhere")
	commandtest.Run(t, nil, "logout").Want(t, 0)
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "not logged in")
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); err != nil || len(left) != 0 {
		t.Errorf("files are left: %v, %v", left, err)
	}
}

func TestLoginRefuses(t *testing.T) {
	s := commandtest.NewServer(t)
	s.AddUser("ann", auth.RoleUser)
	narrow := s.Token("ann", "narrow", auth.ScopeWorkspace)
	for _, c := range []struct {
		code             int
		url, in, problem string
	}{
		{2, "", "", "the address of the server is missing"},
		{2, "ftp://host", "chg_x", "is not the address of a server"},
		{2, "https://ann:secret@host", "chg_x", "is not the address of a server"},
		{2, "https://host/dashboard", "chg_x", "is not the address of a server"},
		{2, "http://codehub.example.com", "chg_x", "over http others may read the token"},
		{1, s.URL, "", "standard input has no token"},
		{1, s.URL, "hunter2", "this is no access token: it begins with chg_"},
		{3, s.URL, "chg_hunter2", "The access token is not valid"},
		{3, s.URL, narrow, "It needs the scope read."},
		{1, "http://127.0.0.1:1", narrow, "the server cannot be reached"},
	} {
		args := []string{"login", c.url}
		o := commandtest.Run(t, strings.NewReader(c.in), args[:1+min(1, len(c.url))]...)
		o.Want(t, c.code, c.problem)
		for _, secret := range []string{"hunter2", narrow} {
			if strings.Contains(o.Stdout+o.Stderr, secret) {
				t.Errorf("login to %s prints %s", c.url, o.Stderr)
			}
		}
	}
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "not logged in")
}

// Without a scheme, a server on this machine is http if it speaks no TLS. Any other one is https.
func TestAServerOnThisMachineNeedsNoScheme(t *testing.T) {
	s := commandtest.NewServer(t)
	s.AddUser("ann", auth.RoleUser)
	secret := s.Token("ann", "cli", auth.ScopeRead)
	host := strings.TrimPrefix(s.URL, "http://")
	commandtest.Run(t, strings.NewReader(secret), "login", host).Want(t, 0, "Signed in at "+s.URL+" as ann")
	t.Setenv("CODEHUB_URL", host)
	commandtest.Run(t, nil, "token", "list").Want(t, 0, "cli\n")
	asked := make(chan struct{}, 1)
	tls := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }))
	t.Cleanup(tls.Close)
	commandtest.Run(t, strings.NewReader(secret), "login", tls.Listener.Addr().String()).Want(t, 1, "https://"+tls.Listener.Addr().String(), "certificate")
	if len(asked) != 0 {
		t.Error("a server whose certificate is unknown was asked")
	}
	commandtest.Run(t, strings.NewReader(secret), "login", "localhost:1").Want(t, 1, "http://localhost:1", "the server cannot be reached")
}

// The environment takes precedence, and a stored token is sent only to its own server.
func TestTheEnvironmentWins(t *testing.T) {
	other := commandtest.NewServer(t)
	other.AddUser("bob", auth.RoleUser)
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	t.Setenv("CODEHUB_TOKEN", s.Token("ann", "of the environment", auth.ScopeWrite))
	commandtest.Run(t, nil, "token", "list").Want(t, 0, "of the environment")
	t.Setenv("CODEHUB_TOKEN", other.Token("bob", "bobs", auth.ScopeRead))
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "not valid")
	t.Setenv("CODEHUB_URL", other.URL)
	commandtest.Run(t, nil, "token", "list").Want(t, 0, "bobs")
	t.Setenv("CODEHUB_TOKEN", "")
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "not logged in")
	t.Setenv("CODEHUB_URL", s.URL)
	commandtest.Run(t, nil, "token", "list").Want(t, 0, "cli")
	t.Setenv("CODEHUB_URL", "nonsense://")
	t.Setenv("CODEHUB_TOKEN", "chg_x")
	commandtest.Run(t, nil, "token", "list").Want(t, 1, "CODEHUB_URL", "is not the address of a server")
}

func TestTokensAreMadeListedAndRevoked(t *testing.T) {
	s := commandtest.NewServer(t)
	s.AddUser("ann", auth.RoleUser)
	password := func() *strings.Reader { return strings.NewReader(commandtest.Password + "\n") }
	commandtest.Run(t, password(), "token", "create", "x").Want(t, 2, "the address of the server is missing")
	commandtest.Run(t, password(), "token", "create", "x", "--url", s.URL).Want(t, 2, "who are you? Add --user NAME")
	made := commandtest.Run(t, password(), "token", "create", "backup", "--url", s.URL, "--user", "ann", "--scope", "read,write", "--days", "90")
	made.Want(t, 0, "chg_")
	commandtest.Run(t, strings.NewReader(made.Stdout), "login", s.URL).Want(t, 0, "as ann")
	commandtest.Run(t, password(), "token", "create", "backup", "--user", "ann", "--json").Want(t, 0, `"token": "chg_`)
	commandtest.Run(t, strings.NewReader("wrong"), "token", "create", "x", "--user", "ann").Want(t, 3, "Wrong user name or password")
	commandtest.Run(t, password(), "token", "create", "x", "--user", "ann", "--scope", "all").Want(t, 1, "scopes must be one or more of read")
	commandtest.Run(t, password(), "token", "create", "x", "--user", "ann", "--scope", "admin").Want(t, 1, "you are not an administrator")

	list := commandtest.Run(t, nil, "token", "list", "--json")
	var tokens []struct{ ID, Name string }
	if err := json.Unmarshal([]byte(list.Stdout), &tokens); err != nil || len(tokens) != 2 {
		t.Fatalf("%v: %+v", err, list)
	}
	commandtest.Run(t, nil, "token", "revoke", "backup").Want(t, 4, `several tokens are called "backup"`, tokens[0].ID, tokens[1].ID)
	commandtest.Run(t, nil, "token", "revoke", "other").Want(t, 4, `you have no access token "other"`)
	commandtest.Run(t, nil, "token", "revoke", tokens[0].ID).Want(t, 0, "backup is revoked.")
	commandtest.Run(t, nil, "token", "revoke", "backup").Want(t, 0) // the token of the login
	commandtest.Run(t, nil, "token", "list").Want(t, 3, "not valid")
	// Signing in to create a token leaves no sign-in behind.
	if n := s.SignIns(); n != 0 {
		t.Errorf("%d sign-ins are left", n)
	}
}
