package command_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	_ "github.com/codehub/gateway/caddymodule" // registers the command
	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// emptyDatabase puts the address of an empty database into the commands' environment. It returns
// package auth over it, to observe their effects.
func emptyDatabase(t *testing.T) *auth.Auth {
	t.Helper()
	dsn := devenv.PostgreSQL(t)
	t.Setenv("DATABASE_URL", dsn)
	st, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	a := auth.New(accounts.New(st.DB), auth.Options{})
	t.Cleanup(a.Close)
	return a
}

func login(t *testing.T, a *auth.Auth, name, password string) (token string, u auth.User) {
	t.Helper()
	token, u, err := a.Login(t.Context(), name, password, auth.Client{})
	if err != nil {
		t.Fatalf("signing in as %s with %q: %v", name, password, err)
	}
	return token, u
}

const (
	testPassword  = "correct horse battery"
	otherPassword = "a staple of batteries"
)

func TestCommandAddsUsers(t *testing.T) {
	a := emptyDatabase(t)
	commandtest.Run(t, strings.NewReader(testPassword+"\n"), "user", "add", "ann").Want(t, 0, "Added ann (user).")
	if _, u := login(t, a, "ann", testPassword); u.Admin() {
		t.Errorf("ann is %+v", u)
	}
	// The line with the password may end with \r\n or without a line break. The input after this line is not read.
	commandtest.Run(t, strings.NewReader(testPassword+"\r\nmore\n"), "user", "add", "root", "--admin").Want(t, 0, "Added root (admin).")
	if _, u := login(t, a, "root", testPassword); !u.Admin() {
		t.Errorf("root is %+v", u)
	}
	commandtest.Run(t, strings.NewReader(" 비밀번호입니다 "), "user", "add", "지우").Want(t, 0, "Added 지우 (user).")
	login(t, a, "지우", " 비밀번호입니다 ")

	commandtest.Run(t, strings.NewReader(otherPassword), "user", "add", "ANN").Want(t, 1,
		`Error: there is a user "ANN" already; to change the password: caddy codehub user passwd ANN`)
	login(t, a, "ann", testPassword)
	for _, c := range []struct{ name, password, problem string }{
		{"bob", "short\n", "the password must have at least 8 characters, not 5"},
		{"b ob", testPassword, "the user name must not contain spaces"},
		{"bob", "", "standard input has no password"},
		{"bob", "\n" + testPassword, "standard input has no password"},
		{"bob", strings.Repeat("x", 1<<20), "the password must have at most 1024 bytes"},
	} {
		commandtest.Run(t, strings.NewReader(c.password), "user", "add", c.name).Want(t, 1, c.problem)
	}
	commandtest.Run(t, failingReader{}, "user", "add", "bob").Want(t, 1, "reading the password from standard input: broken pipe")
	if users, err := a.AllAccounts(t.Context()); err != nil || len(users) != 3 {
		t.Errorf("users are %+v, %v", users, err)
	}
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestCommandChangesUsers(t *testing.T) {
	a := emptyDatabase(t)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "ann").Want(t, 0)
	token, _ := login(t, a, "ann", testPassword)

	commandtest.Run(t, strings.NewReader(otherPassword+"\n"), "user", "passwd", "ann").Want(t, 0, "ann has the new password, and is signed out everywhere.")
	if _, _, err := a.Login(t.Context(), "ann", testPassword, auth.Client{}); !errors.Is(err, auth.ErrBadCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if _, err := a.Session(t.Context(), token); !errors.Is(err, auth.ErrNoSession) {
		t.Errorf("the session of before: %v", err)
	}
	login(t, a, "ann", otherPassword)
	commandtest.Run(t, strings.NewReader("short"), "user", "passwd", "ann").Want(t, 1, "the password must have at least")
	login(t, a, "ann", otherPassword)

	commandtest.Run(t, nil, "user", "disable", "ann").Want(t, 0, "ann can no longer sign in")
	if _, _, err := a.Login(t.Context(), "ann", otherPassword, auth.Client{}); !errors.Is(err, auth.ErrBadCredentials) {
		t.Errorf("disabled, ann signs in: %v", err)
	}
	commandtest.Run(t, nil, "user", "enable", "ann").Want(t, 0, "ann can sign in again.")
	login(t, a, "ann", otherPassword)

	for _, args := range [][]string{{"ann"}, {"--all", "--yes"}} {
		token, _ := login(t, a, "ann", otherPassword)
		commandtest.Run(t, nil, append([]string{"user", "sign-out"}, args...)...).Want(t, 0, "signed out everywhere.")
		if _, err := a.Session(t.Context(), token); !errors.Is(err, auth.ErrNoSession) {
			t.Errorf("the session of before signing out %q: %v", args, err)
		}
	}
	commandtest.Run(t, strings.NewReader("no"), "user", "sign-out", "--all").Want(t, 1, "nothing was changed")
	commandtest.Run(t, nil, "user", "sign-out", "ann", "--all").Want(t, 2)

	commandtest.Run(t, nil, "user", "limits", "ANN", "--running", "5").Want(t, 0, "ann may run 5 at the same time, and have as many as all users.")
	commandtest.Run(t, nil, "user", "limits", "ann", "--running", "0", "--workspaces", "7").Want(t, 0, "ann may run as many as all users at the same time, and have 7.")
	commandtest.Run(t, nil, "user", "limits", "ann").Want(t, 1, "write --running, --workspaces or both")
	commandtest.Run(t, nil, "user", "limits", "ann", "--running", "-1").Want(t, 1, "the limits.max_running must be a number from 1 to 1000000")
	commandtest.Run(t, nil, "user", "limits", "bob", "--running", "1").Want(t, 1, `Error: there is no user "bob"`)
	if users, err := a.AllAccounts(t.Context()); err != nil || users[0].MaxRunning != 0 || users[0].MaxWorkspaces != 7 {
		t.Errorf("ann's limits are %+v, %v", users, err)
	}

	for _, does := range []string{"passwd", "disable", "enable", "sign-out", "unlock"} {
		commandtest.Run(t, strings.NewReader(otherPassword), "user", does, "bob").Want(t, 1,
			`Error: there is no user "bob"; to see who there is: caddy codehub user list`)
	}
}

func TestCommandListsUsers(t *testing.T) {
	emptyDatabase(t)
	commandtest.Run(t, nil, "user", "list").Want(t, 1, "this database has no users yet: is it the right one? To prepare it: caddy codehub migrate")
	for range 2 {
		commandtest.Run(t, nil, "migrate").Want(t, 0, "up to date")
	}
	if o := commandtest.Run(t, nil, "user", "list", "--json"); o.Code != 0 || strings.TrimSpace(o.Stdout) != "[]" {
		t.Errorf("nobody is %+v", o)
	}
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "root", "--admin").Want(t, 0)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "<Ann>").Want(t, 0)
	commandtest.Run(t, nil, "user", "disable", "<Ann>").Want(t, 0)
	commandtest.Run(t, nil, "user", "disable", "root").Want(t, 1,
		"root is the last administrator who can sign in; add another one before: caddy codehub user add NAME --admin")

	table := commandtest.Run(t, nil, "user", "list")
	table.Want(t, 0)
	var rows [][]string
	for line := range strings.Lines(table.Stdout) {
		rows = append(rows, strings.Fields(line))
	}
	if len(rows) != 3 || strings.Join(rows[0], " ") != "ROLE SIGN-IN ADDED NAME" || len(rows[1]) != 5 || len(rows[2]) != 5 ||
		rows[1][0] != "user" || rows[1][1] != "disabled" || rows[1][4] != "<Ann>" ||
		rows[2][0] != "admin" || rows[2][1] != "yes" || rows[2][4] != "root" {
		t.Errorf("the table is\n%s", table.Stdout)
	}

	list := commandtest.Run(t, nil, "user", "list", "--json")
	list.Want(t, 0, `"username": "<Ann>"`)
	var users []struct {
		ID, Username, Role string
		Disabled           bool
		CreatedAt          time.Time `json:"created_at"`
	}
	if err := json.Unmarshal([]byte(list.Stdout), &users); err != nil {
		t.Fatal(err)
	}
	if len(users) != 2 || users[0].ID == "" || users[0].Username != "<Ann>" || users[0].Role != "user" || !users[0].Disabled ||
		users[1].Username != "root" || users[1].Role != "admin" || users[1].Disabled || time.Since(users[1].CreatedAt) > time.Hour {
		t.Errorf("the list is %+v", users)
	}
}

func TestCommandChoosesTheDatabase(t *testing.T) {
	emptyDatabase(t)
	other := devenv.PostgreSQL(t)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "ann", "--database", other).Want(t, 0)
	commandtest.Run(t, nil, "user", "list", "--database", other).Want(t, 0, "ann")
	commandtest.Run(t, nil, "user", "list").Want(t, 1, "this database has no users yet")

	t.Setenv("DATABASE_URL", "")
	commandtest.Run(t, nil, "migrate").Want(t, 2, "which database? Set DATABASE_URL, or give --database", "postgres://user:password@host:5432/name")
	commandtest.Run(t, nil, "migrate", "--database", other).Want(t, 0)
}

// The commands never print what may be a password, not even if the address that contains it is invalid.
func TestCommandNeverPrintsThePassword(t *testing.T) {
	server, err := url.Parse(devenv.PostgreSQL(t))
	if err != nil {
		t.Fatal(err)
	}
	q := server.Query()
	q.Set("user", "nobody")
	q.Set("password", "hunter2")
	server.RawQuery = q.Encode()
	for _, c := range []struct {
		dsn  string
		code int
	}{
		{server.String(), 1},
		{"postgres://ann:hunter2@127.0.0.1:1/x", 1},
		{"host=127.0.0.1 port=1 user=ann password=hunter2", 1},
		{"postgres://ann:p/hunter2@host/x", 2},
		{"postgres://ann:p:hunter2@host:port/x", 2},
		{"postgres://ann:p%hunter2@host/x", 2},
		{"postgres://ann:p hunter2@host/x", 2},
		{"postgres://ann:hunter2@host/x?sslmode=some", 2},
		{"host=h password = 'hunter2", 2},
		{"hunter2", 2},
	} {
		t.Setenv("DATABASE_URL", c.dsn)
		for _, args := range [][]string{{"user", "list"}, {"user", "add", "ann"}, {"migrate"}} {
			o := commandtest.Run(t, strings.NewReader(testPassword), args...)
			o.Want(t, c.code, "Error: ")
			if strings.Contains(o.Stdout+o.Stderr, "hunter2") {
				t.Errorf("%v with %s prints %s", args, c.dsn, o.Stderr)
			}
		}
	}
}

func TestCommandRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://127.0.0.1:1/x")
	for _, c := range []struct{ args, problem string }{
		{"", "a command is missing\nSee: caddy codehub --help\n"},
		{"user", "a command is missing\nSee: caddy codehub user --help\n"},
		{"users", `there is no command "users"; did you mean user?`},
		{"workspace lits", `there is no command "lits"; did you mean list or logs?`},
		{"workspace strat mine", `there is no command "strat"; did you mean start or stats?`},
		{"user remove ann", `there is no command "remove"`},
		{"user add", "0 arguments instead of 1: write caddy codehub user add NAME [flags]"},
		{"user add ann bob", "2 arguments instead of 1"},
		{"user list ann", "1 argument instead of 0"},
		{"migrate now", "1 argument instead of 0"},
		{"user add ann --password secret", "unknown flag: --password"},
		{"user list --admin", "unknown flag: --admin\nSee: caddy codehub user list --help\n"},
		{"migrate --database", "flag needs an argument: --database"},
		{"gc now", "1 argument instead of 0: write caddy codehub gc [flags]\nSee: caddy codehub gc --help\n"},
		{"orphans all", "1 argument instead of 0"},
	} {
		commandtest.Run(t, nil, strings.Fields(c.args)...).Want(t, 2, "Error: ", c.problem)
	}
}

// atServer are the commands that only work through a running server.
var atServer = map[string]bool{
	"login": true, "logout": true, "token create": true, "token list": true, "token revoke": true,
	"workspace show": true, "workspace create": true, "workspace open": true, "workspace update": true,
	"workspace start": true, "workspace sleep": true, "workspace archive": true, "workspace keep-awake": true,
	"workspace rename": true, "workspace logs": true, "workspace stats": true, "workspace exec": true, "health": true,
}

// alone are the commands that make no connection.
var alone = map[string]bool{"version": true}

// Every command has a description, and examples with existing commands.
func TestCommandHelp(t *testing.T) {
	root := commandtest.CommandLine()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "caddy codehub")
		o := commandtest.Run(t, nil, append(strings.Fields(path), "--help")...)
		o.Want(t, 0, cmd.Long, "Usage:", "Examples:")
		// Each command works in exactly one of four ways: on the database, on the servers of a configuration, only
		// through a running server, or without any of these.
		ways := 0
		for _, way := range []bool{strings.Contains(o.Stdout, "--config "), strings.Contains(o.Stdout, "--database string"), atServer[strings.TrimSpace(path)], alone[strings.TrimSpace(path)]} {
			if way {
				ways++
			}
		}
		if ways != 1 && !cmd.HasSubCommands() {
			t.Errorf("%s: the help shows %d ways to work", path, ways)
		}
		if cmd.Short == "" || cmd.Long == "" || !strings.Contains(cmd.Example, "$ "+cmd.CommandPath()) {
			t.Errorf("%s lacks a description or an example", cmd.CommandPath())
		}
		for _, example := range strings.Split(cmd.Example, "caddy ")[1:] {
			words := strings.Fields(example)
			found, rest, err := root.Find(words)
			if err != nil || found.HasSubCommands() || (len(rest) > 0 && strings.HasSuffix(found.Use, "NAME") && strings.HasPrefix(rest[0], "-")) {
				t.Errorf("%s: the example %q is no command (%v)", cmd.CommandPath(), example, err)
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(root.Commands()[0])
}

// TestCommandExitCodes runs Caddy's own main function. It does so in another process, which runs this test, too.
func TestCommandExitCodes(t *testing.T) {
	const asCaddy = "CODEHUB_TEST_AS_CADDY"
	if args := os.Getenv(asCaddy); args != "" {
		os.Args = strings.Fields(args)
		caddycmd.Main()
		os.Exit(0)
	}
	for _, c := range []struct {
		args, out string
		code      int
	}{
		{"caddy codehub user add --help", "caddy codehub user add NAME [flags]", 0},
		{"caddy codehub user list", "Error: the database cannot be reached; check DATABASE_URL or --database: ", 1},
		{"caddy codehub user add", "Error: 0 arguments instead of 1", 2},
		{"caddy codehub", "Error: a command is missing", 2},
		{"caddy help", "Manages the workspaces, the users and the archives of CodeHub Gateway", 0},
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestCommandExitCodes$")
		cmd.Env = append(os.Environ(), asCaddy+"="+c.args, "DATABASE_URL=postgres://127.0.0.1:1/x")
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || strings.Count(string(out), c.out) != 1 {
			t.Errorf("%s: exit code %d, want %d (%v)\n%s", c.args, code, c.code, err, out)
		}
	}
}
