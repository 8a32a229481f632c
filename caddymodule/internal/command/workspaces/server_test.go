package workspaces_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// run runs a command about workspaces.
func run(t *testing.T, args ...string) commandtest.Outcome {
	t.Helper()
	return commandtest.Run(t, nil, append([]string{"workspace"}, args...)...)
}

// object parses the JSON output of a command.
func object(t *testing.T, o commandtest.Outcome) (w struct {
	ID, Name, Phase, URL string
	Memo                 *string
	Desired              string  `json:"desired_state"`
	Image                *string `json:"image_ref"`
	GitURL               *string `json:"git_url"`
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(o.Stdout), &w); err != nil || o.Code != 0 {
		t.Fatalf("%v: %+v", err, o)
	}
	return w
}

func TestARepositoryToBeginWith(t *testing.T) {
	commandtest.NewServer(t).SignedIn("ann")
	const address = "git@git.example:team/project.git"
	if w := object(t, run(t, "create", "one", "--git-url", address, "--desired-state", "ARCHIVED", "--json")); w.GitURL == nil || *w.GitURL != address {
		t.Errorf("created %+v", w)
	}
	run(t, "show", "one").Want(t, 0, "git      "+address)
	run(t, "create", "two", "--git-url", "https://ann:secret@git.example/a").Want(t, 1, "git_url must have no password")
}

func TestWorkspacesThroughAServer(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "list").Want(t, 0, "There is no such workspace.")
	run(t, "list", "--json").Want(t, 0, "[]")
	thesis := object(t, run(t, "create", "thesis", "--memo", "by hand", "--desired-state", "ARCHIVED", "--json"))
	if thesis.Name != "thesis" || thesis.Desired != "ARCHIVED" || thesis.Memo == nil || *thesis.Memo != "by hand" {
		t.Errorf("created %+v", thesis)
	}
	run(t, "create", "other", "--desired-state", "ARCHIVED").Want(t, 0, "other is created: ")
	run(t, "list").Want(t, 0, "STATE", thesis.ID+"  thesis\n", "  other\n")
	run(t, "list", "--failed").Want(t, 0, "No workspace is in ERROR.")
	run(t, "list", "--phase", "pending", "-q", "THES", "--sort", "name").Want(t, 0, thesis.ID+"  thesis\n")
	if o := run(t, "list", "-q", "nothing", "--json"); strings.TrimSpace(o.Stdout) != "[]" {
		t.Errorf("got %+v", o)
	}
	run(t, "list", "--all").Want(t, 3, "Administrators only")
	run(t, "list", "--owner", "bob").Want(t, 3, "Administrators only")
	run(t, "list", "--sort", "size").Want(t, 1, "sort must be")
	run(t, "list", "--phase", "running,asleep").Want(t, 2, `"asleep" is not a phase: write one or more of PENDING,ARCHIVED,STANDBY,RUNNING,ERROR,DELETING`)
	for _, named := range []string{"thesis", thesis.ID, strings.ToUpper(thesis.ID)} {
		if got := object(t, run(t, "show", named, "--json")); got.ID != thesis.ID {
			t.Errorf("%s is %+v", named, got)
		}
	}
	run(t, "show", "thesis").Want(t, 0, "phase    PENDING, wanted: ARCHIVED", "memo     by hand", "address  "+s.URL+"/w/"+thesis.ID+"/")
	if got := object(t, run(t, "update", "thesis", "--memo", "", "--name", "my thesis", "--json")); got.Name != "my thesis" || got.Memo != nil {
		t.Errorf("changed to %+v", got)
	}
	run(t, "update", "my thesis").Want(t, 1, "nothing to change")
	run(t, "rename", "my thesis", "thesis").Want(t, 0, "my thesis is called thesis now.")
	if got := object(t, run(t, "rename", "thesis", "my thesis", "--json")); got.ID != thesis.ID || got.Name != "my thesis" {
		t.Errorf("renamed to %+v", got)
	}
	run(t, "rename", "my thesis", "").Want(t, 1, "name")
	run(t, "rename", "my thesis").Want(t, 2, "1 argument instead of 2")
	for _, c := range [][2]string{{"start", "RUNNING"}, {"sleep", "STANDBY"}, {"archive", "ARCHIVED"}} {
		if got := object(t, run(t, c[0], "my thesis", "--json")); got.Desired != c[1] {
			t.Errorf("%s: %+v", c[0], got)
		}
	}
	run(t, "explain", "my thesis").Want(t, 0, "phase", "PENDING")
	run(t, "explain", "my thesis", "--json").Want(t, 0, `"workspace_id": "`+thesis.ID+`"`)
	run(t, "history", "my thesis").Want(t, 0, "AT ", "desired_state", "api ann")
	run(t, "keep-awake", "my thesis", "4").Want(t, 5, "The workspace is not awake")
	run(t, "keep-awake", "my thesis", "long").Want(t, 1, `"long" is not a number of hours`)
	if o := commandtest.Run(t, strings.NewReader("no\n"), "workspace", "delete", "my thesis"); o.Code != 1 || !strings.Contains(o.Stderr, `This deletes the workspace "my thesis"`) {
		t.Errorf("got %+v", o)
	}
	run(t, "delete", "my thesis", "--yes").Want(t, 0, "my thesis is deleted")
	run(t, "show", "my thesis").Want(t, 4, `you have no workspace "my thesis"`)
	run(t, "list", "--deleted").Want(t, 0, thesis.ID)
	run(t, "undelete", "my thesis").Want(t, 0, "my thesis is back.")
}

// The command waits for a deletion step in progress.
func TestUndeletingWhileADeletionGoesOn(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "create", "one", "--desired-state", "ARCHIVED").Want(t, 0)
	run(t, "delete", "one", "--yes").Want(t, 0)
	s.Exec(`UPDATE workspaces SET operation = 'STOPPING'`)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	said, errs := io.Pipe()
	command := commandtest.CommandLine()
	command.SetErr(errs)
	command.SetOut(io.Discard)
	command.SetArgs([]string{"codehub", "workspace", "undelete", "one"})
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(command.ExecuteContext(ctx), errs.Close()) }()
	lines := bufio.NewReader(said)
	if line, err := lines.ReadString('\n'); line != "one: a step of the deletion is in progress; waiting for its end\n" {
		t.Fatalf("it says %q, %v", line, err)
	}
	s.Exec(`UPDATE workspaces SET operation = 'NONE'`)
	if rest, err := io.ReadAll(lines); len(rest) != 0 || err != nil {
		t.Errorf("it says also %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	run(t, "list").Want(t, 0, "  one\n")
}

// A dozing workspace is shown as such, and resumes when it is opened.
func TestAWorkspaceThatDozes(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "create", "one").Want(t, 0)
	s.Exec(`UPDATE workspaces SET phase = 'RUNNING', phase_changed_at = now()`)
	s.Exec(`UPDATE workspaces SET doze_at = now()`)
	if o := run(t, "show", "one"); strings.Contains(o.Stdout, "doz") {
		t.Errorf("its container is not frozen yet: %s", o.Stdout)
	}
	s.Exec(`UPDATE workspaces SET conditions = '{"infra.dozing": {"status": "True"}}'`)
	run(t, "list").Want(t, 0, "RUNNING,dozing  ")
	run(t, "show", "one").Want(t, 0, "phase        RUNNING, dozing\n", "dozes since  ")
	run(t, "explain", "one").Want(t, 0, "It is dozing because it has not been used for a while", "It resumes immediately")
	run(t, "open", "one").Want(t, 0, "/w/")
	if o := run(t, "show", "one"); strings.Contains(o.Stdout, "doz") {
		t.Errorf("it is open, and dozes: %s", o.Stdout)
	}
	run(t, "history", "one").Want(t, 0, "thawed", "api ann")
}

func TestAwaitingAState(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "create", "one", "--desired-state", "ARCHIVED").Want(t, 0)
	s.Exec(`UPDATE workspaces SET phase = 'RUNNING'`)
	o := run(t, "open", "one")
	o.Want(t, 0)
	if !regexp.MustCompile(`^http://[\d.:]+/w/[0-9a-f-]+/\n$`).MatchString(o.Stdout) {
		t.Errorf("the address is %q", o.Stdout)
	}
	s.Exec(`UPDATE workspaces SET phase = 'ERROR', error_reason = 'RetryExceeded', error_message = 'x'`) // which start does not retry
	run(t, "start", "one", "--wait").Want(t, 1, "one is in ERROR: RetryExceeded: ")
}

func TestNamesThatMeanSeveral(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	first := object(t, run(t, "create", "twin", "--desired-state", "ARCHIVED", "--json"))
	second := object(t, run(t, "create", "twin", "--desired-state", "ARCHIVED", "--json"))
	o := run(t, "delete", "twin", "--yes")
	o.Want(t, 4, `several workspaces are called "twin"; write the id of one:`, first.ID, second.ID)
	run(t, "delete", first.ID, "--yes").Want(t, 0)
	run(t, "show", "twin").Want(t, 0, second.ID)
	run(t, "undelete", "twin").Want(t, 4, first.ID, second.ID)
	run(t, "undelete", first.ID).Want(t, 0, "twin is back.")
	// Another user's workspace is not found.
	s.AddUser("bob", auth.RoleUser)
	t.Setenv("CODEHUB_URL", s.URL)
	t.Setenv("CODEHUB_TOKEN", s.Token("bob", "x", auth.ScopeWrite))
	run(t, "show", "twin").Want(t, 4, `you have no workspace "twin"`)
	run(t, "delete", second.ID, "--yes").Want(t, 4)
	t.Setenv("CODEHUB_TOKEN", s.Token("bob", "y", auth.ScopeRead))
	run(t, "create", "mine").Want(t, 3, "It needs the scope write.")
}

// A command works at the server where the person is logged in, unless the command line names a configuration.
func TestWhichOfTheTwoWaysIsTaken(t *testing.T) {
	run(t, "open", "one").Want(t, 3, "you are not logged in at a server")
	for _, command := range [][]string{{"list"}, {"explain", "one"}} {
		run(t, command...).Want(t, 3, "you are not logged in at a server: run caddy codehub login", "name its configuration with --config")
	}
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "list").Want(t, 0)
	run(t, "list", "--failed", "--config", "/nowhere/Caddyfile").Want(t, 2, "name it with --config")
	run(t, "explain", "one", "--config", "/nowhere/Caddyfile").Want(t, 2, `"one" is not a workspace id`)
	run(t, "open", "one", "--config", "x").Want(t, 2, "unknown flag: --config")
	run(t, "explain").Want(t, 2, "0 arguments instead of 1")
}

func TestAShellCompletesNames(t *testing.T) {
	s := commandtest.NewServer(t)
	complete := func(args ...string) string {
		return commandtest.Complete(t, append([]string{"workspace"}, args...)...)
	}
	if got := complete("open", ""); strings.Contains(got, "thesis") {
		t.Errorf("logged in nowhere: %q", got)
	}
	s.SignedIn("ann")
	run(t, "create", "thesis", "--desired-state", "ARCHIVED").Want(t, 0)
	run(t, "create", "other", "--desired-state", "ARCHIVED").Want(t, 0)
	run(t, "delete", "other", "--yes").Want(t, 0)
	for args, want := range map[string]string{"open th": "thesis", "open x": "", "undelete ": "other", "op": "open", "explain th": "thesis"} {
		got := complete(strings.Split(args, " ")...)
		if first, _, _ := strings.Cut(got, "\n"); want != "" && !strings.HasPrefix(first, want) || want == "" && !strings.HasPrefix(got, ":") {
			t.Errorf("%q is completed to %q", args, got)
		}
	}
}

func TestLogs(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	id := workspace.ID(object(t, run(t, "create", "one", "--json")).ID)
	run(t, "logs", "one").Want(t, 5, "The workspace does not run")
	s.Start(id)
	s.Engine.Print(id, "first\nsecond\n한글\n")
	if o := run(t, "logs", "one"); o.Stdout != "first\nsecond\n한글\n" || o.Code != 0 {
		t.Errorf("got %+v", o)
	}
	if o := run(t, "logs", "one", "-n", "2"); o.Stdout != "second\n한글\n" || o.Code != 0 {
		t.Errorf("two lines: %+v", o)
	}
	run(t, "logs", "one", "-n", "0").Want(t, 1, "lines")
	run(t, "logs", "two").Want(t, 4, `you have no workspace "two"`)
	s.Exec(`UPDATE workspaces SET phase = 'ERROR', error_reason = 'RetryExceeded', error_message = 'x'`)
	run(t, "logs", "one", "--wake").Want(t, 1, "one is in ERROR: RetryExceeded: ")
	s.Exec(`UPDATE workspaces SET phase = 'RUNNING', error_reason = NULL, error_message = NULL`)
	if o := run(t, "logs", "one", "--wake", "-n", "1"); o.Stdout != "한글\n" || o.Code != 0 {
		t.Errorf("one that was started before: %+v", o)
	}

	// With --follow, the command prints the container's output while the container writes it, and ends when the
	// container ends.
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	printed, out := io.Pipe()
	command := commandtest.CommandLine()
	command.SetOut(out)
	command.SetArgs([]string{"codehub", "workspace", "logs", "one", "--lines", "1", "--follow"})
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(command.ExecuteContext(ctx), out.Close()) }()
	lines := bufio.NewReader(printed)
	next := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	next("한글\n")
	s.Engine.Print(id, "more\n")
	next("more\n")
	s.Engine.Exit(id, 3, time.Second, "exiting\n")
	next("exiting\n")
	if rest, err := io.ReadAll(lines); len(rest) != 0 || err != nil {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// execServer starts a server with a running workspace called one. Commands in the workspace are executed by the
// function run. The command line is logged in at this server.
func execServer(t *testing.T, run func(context.Context, backend.Command, io.Writer, io.Writer) int) *commandtest.Server {
	t.Helper()
	s := commandtest.NewServer(t)
	s.Engine.Run = run
	s.SignedIn("ann")
	s.Start(workspace.ID(object(t, commandtest.Run(t, nil, "workspace", "create", "one", "--json")).ID))
	return s
}

// Exec ends with the exit code of the command that ran in the workspace. What the command wrote to standard output or
// standard error appears unchanged on the same stream.
func TestExec(t *testing.T) {
	var ran backend.Command
	s := execServer(t, func(_ context.Context, c backend.Command, stdout, stderr io.Writer) int {
		ran = c
		_, _ = io.WriteString(stdout, "a\n\xff\x00")
		_, _ = io.WriteString(stderr, "b\n")
		_, _ = io.WriteString(stdout, "c")
		code, _ := strconv.Atoi(c.Words[1])
		return code
	})
	for code := range 3 {
		for _, dashes := range [][]string{nil, {"--"}} {
			args := slices.Concat([]string{"exec", "one"}, dashes, []string{"x", strconv.Itoa(code), "--json", "--", "$HOME"})
			want := commandtest.Outcome{Code: code, Stdout: "a\n\xff\x00c", Stderr: "b\n"}
			if got := run(t, args...); got != want || !slices.Equal(ran.Words, []string{"x", strconv.Itoa(code), "--json", "--", "$HOME"}) || ran.Terminal != nil {
				t.Errorf("%q: got %+v from %+v", args, got, ran)
			}
		}
	}
	run(t, "exec", "one").Want(t, 2, "a command to run there")
	run(t, "exec", "one", "--").Want(t, 2, "a command to run there")
	run(t, "exec", "one", "--wake", "ls").Want(t, 2, "--wake stands where the command begins")
	run(t, "exec", "-t", "one", "ls").Want(t, 2, "-t needs a terminal")
	run(t, "exec", "-t", "--stdin=false", "one", "ls").Want(t, 2, "leave --stdin=false out")
	run(t, "exec", "two", "ls").Want(t, 255, `you have no workspace "two"`)
	run(t, "create", "two", "--desired-state", "ARCHIVED").Want(t, 0)
	run(t, "exec", "two", "ls").Want(t, 255, "The workspace does not run")
	s.Exec(`UPDATE workspaces SET phase = 'ERROR', error_reason = 'RetryExceeded', error_message = 'x' WHERE name = 'two'`)
	run(t, "exec", "--wake", "two", "ls").Want(t, 255, "two is in ERROR: RetryExceeded: ")
	s.Exec(`UPDATE workspaces SET phase = 'RUNNING', desired_state = 'STANDBY', error_reason = NULL, error_message = NULL WHERE name = 'one'`)
	if o := run(t, "exec", "--wake", "one", "x", "0"); o.Code != 0 {
		t.Errorf("with --wake: %+v", o)
	}
	if got := object(t, run(t, "show", "one", "--json")); got.Desired != "RUNNING" {
		t.Errorf("with --wake it was not started: %+v", got)
	}
}

// exec does not learn how the command ended, because the engine fails or the server offers no WebSocket.
func TestExecOfWhichTheEndIsNotKnown(t *testing.T) {
	s := execServer(t, nil)
	s.Engine.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Exec" {
			return errors.New("the engine is away")
		}
		return nil
	}
	run(t, "exec", "one", "ls").Want(t, 255, "The end of the command is not known")
	url := commandtest.NewStub(t, map[string]string{
		"/api/v1/workspaces": `{"items": [{"id": "` + exampleID + `", "name": "one"}], "next_cursor": null}`,
	})
	t.Setenv("CODEHUB_URL", url)
	t.Setenv("CODEHUB_TOKEN", "chg_x")
	run(t, "exec", "one", "ls").Want(t, 255, "opens no WebSocket")
}

// Exec passes standard input of any length to the command, and the command also notices its end.
func TestExecPassesStandardInput(t *testing.T) {
	execServer(t, func(_ context.Context, c backend.Command, stdout, _ io.Writer) int {
		if c.Stdin == nil {
			return 9
		}
		n, err := io.Copy(stdout, c.Stdin)
		if err != nil || n == 0 {
			return 8
		}
		return 0
	})
	random := make([]byte, 3<<20)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(random)
	for _, text := range []string{"x", "한글\n", string(random)} {
		if o := commandtest.Run(t, strings.NewReader(text), "workspace", "exec", "one", "cat"); o.Stdout != text || o.Code != 0 || o.Stderr != "" {
			t.Errorf("%d bytes: %d come back, exit code %d, %q", len(text), len(o.Stdout), o.Code, o.Stderr)
		}
	}
	if o := commandtest.Run(t, strings.NewReader(""), "workspace", "exec", "one", "cat"); o.Code != 8 {
		t.Errorf("empty input: %+v", o)
	}
	if o := commandtest.Run(t, strings.NewReader("x"), "workspace", "exec", "--stdin=false", "one", "cat"); o.Code != 9 {
		t.Errorf("without input: %+v", o)
	}
	if o := commandtest.Run(t, iotest.ErrReader(errors.New("the disk is broken")), "workspace", "exec", "one", "cat"); o.Code != 255 || !strings.Contains(o.Stderr, "the disk is broken") {
		t.Errorf("input that cannot be read: %+v", o)
	}
}

func TestRecoveringThroughAServer(t *testing.T) {
	s := commandtest.NewServer(t)
	s.SignedIn("ann")
	run(t, "create", "one", "--desired-state", "ARCHIVED").Want(t, 0)
	s.Exec(`UPDATE workspaces SET phase = 'ERROR', error_reason = 'Timeout', error_message = 'x'`)
	run(t, "list", "--failed").Want(t, 0, "Timeout  ", "  one\n")
	run(t, "recover", "one").Want(t, 3, "It needs the scope admin.")
	run(t, "recover", "--reason", "Timeout").Want(t, 2, "--reason and --all belong together")
	s.AddUser("root", auth.RoleAdmin)
	t.Setenv("CODEHUB_URL", s.URL)
	t.Setenv("CODEHUB_TOKEN", s.Token("root", "x", auth.ScopeWrite, auth.ScopeAdmin))
	run(t, "list").Want(t, 0, "There is no such workspace.")
	id := object(t, commandtest.Outcome{Stdout: strings.Trim(strings.TrimSpace(run(t, "list", "--owner", "ann", "--json").Stdout), "[]")}).ID
	run(t, "recover", id).Want(t, 0, "one is recovered")
	run(t, "recover", id).Want(t, 0, "one is in no error; nothing was changed.")
	s.Exec(`UPDATE workspaces SET phase = 'ERROR', error_reason = 'Timeout'`)
	run(t, "recover", "--reason", "Timeout", "--all", "--yes", "--json").Want(t, 0, `"recovered": [`, id)
}

func TestStats(t *testing.T) {
	url := commandtest.NewStub(t, map[string]string{
		"/api/v1/workspaces": `{"items": [{"id": "` + exampleID + `", "name": "one"}], "next_cursor": null}`,
		"/api/v1/workspaces/" + exampleID + "/stats": `{"at": "2026-11-25T06:00:00Z", "cpu": {"seconds": 3.5, "limit_cores": 2}, "memory": {"used_bytes": 1048576, "limit_bytes": 2147483648},
			"home": {"used_bytes": null, "limit_bytes": null, "disk_free_bytes": 1073741824}, "processes": 7, "ports": [{"port": 3000, "url": "http://3000--x.localhost/"}, {"port": 22, "url": null}]}`,
	})
	t.Setenv("CODEHUB_URL", url)
	t.Setenv("CODEHUB_TOKEN", "chg_x")
	run(t, "stats", "one").Want(t, 0, "memory     1MiB of 2GiB", "home       unknown", "free       1GiB on its disk", "processes  7", "3000  http://3000--x.localhost/")
	run(t, "stats", "one", "--json").Want(t, 0, `"seconds": 3.5`)
}
