package command_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestAuditIsFollowed checks that the command prints each new entry once, oldest first, until it is interrupted. This
// also holds for an entry whose transaction ends after the transaction of a later entry.
func TestAuditIsFollowed(t *testing.T) {
	emptyDatabase(t)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "ann").Want(t, 0)
	db, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	const write = `INSERT INTO audit_log (actor, action, details) VALUES ('{"kind": "system"}', 'system.gc', jsonb_build_object('n', $1::text))`

	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	out, in := io.Pipe()
	root := commandtest.CommandLine()
	root.SetOut(in)
	root.SetArgs([]string{"codehub", "audit", "--follow", "--json", "--action", "system.gc"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx); in.Close() }()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	next := func() (n string, ok bool) {
		t.Helper()
		var line string
		select {
		case line, ok = <-lines:
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		case <-time.After(wait.Timeout):
			t.Fatal("nothing is printed")
		}
		if !ok {
			return "", false
		}
		var e struct{ Details struct{ N string } }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return e.Details.N, true
	}
	// The command prints entries that are newer than its start. The test cannot observe when the command has read the
	// clock, so it adds entries until one is printed.
	wait.For(t, "it follows", func() error {
		exec(write, "first")
		select {
		case <-lines:
			return nil
		default:
			return errors.New("nothing is printed")
		}
	})
	exec("BEGIN")
	exec(write, "late")
	commandtest.Run(t, nil, "user", "limits", "ann", "--running", "3").Want(t, 0) // another action
	other, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close(context.Background())
	for _, n := range []string{"1", "2"} {
		if _, err := other.Exec(t.Context(), write, n); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	read := func(until string) {
		t.Helper()
		for {
			n, ok := next()
			if !ok {
				t.Fatal("it has ended")
			}
			if n != "first" {
				got = append(got, n)
			}
			if n == until {
				return
			}
		}
	}
	read("2")
	exec("COMMIT")
	read("late")
	exec(write, "3")
	read("3")
	if want := "[1 2 late 3]"; fmt.Sprint(got) != want {
		t.Errorf("printed %v, want %s", got, want)
	}
	interrupt()
	for {
		select {
		case line, ok := <-lines:
			if ok {
				t.Errorf("printed once more: %s", line)
				continue
			}
		case <-time.After(wait.Timeout):
			t.Fatal("an interrupt does not end it")
		}
		break
	}
	if err := <-ended; err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestCommandAudit(t *testing.T) {
	a := emptyDatabase(t)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "ann").Want(t, 0, "Added ann")
	commandtest.Run(t, nil, "user", "limits", "ann", "--running", "3").Want(t, 0)
	login(t, a, "ann", testPassword)
	if _, _, err := a.Login(t.Context(), "ann", "wrong", auth.Client{Address: "192.0.2.1"}); err == nil {
		t.Fatal("a wrong password signs in")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	table := commandtest.Run(t, nil, "audit")
	table.Want(t, 0, "TIME", "user.create", "user.limits", host, "user.sign_in    bad-credentials", "system.migrate")
	if first, last := strings.Index(table.Stdout, "bad-credentials"), strings.Index(table.Stdout, "system.migrate"); first > last {
		t.Errorf("the newest is not the first:\n%s", table.Stdout)
	}
	type entry struct {
		Action, Outcome string
		Actor           struct{ Kind, Through, Host string }
		User            *struct{ Username string }
	}
	read := func(args ...string) (all []entry) {
		t.Helper()
		out := commandtest.Run(t, nil, append([]string{"audit", "--json"}, args...)...)
		out.Want(t, 0)
		for line := range strings.Lines(out.Stdout) {
			var e entry
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			all = append(all, e)
		}
		return all
	}
	for filter, want := range map[string]int{
		"--user=ann": 4, "--action=user.sign_in": 2, "--action=user": 4, "--since=1h --user=ANN": 4, "--until=1h": 0,
		"--user=nobody": 0, "--limit=2": 2, "--since=2020-01-01T00:00:00Z --action=user.limits": 1,
	} {
		if got := read(strings.Fields(filter)...); len(got) != want {
			t.Errorf("%s: %+v", filter, got)
		}
	}
	if e := read("--action=user.limits")[0]; e.Actor.Kind != "operator" || e.Actor.Through != "command line" ||
		e.Actor.Host != host || e.User.Username != "ann" {
		t.Errorf("limits: %+v", e)
	}
	for args, problem := range map[string]string{
		"--action=work": "there is no action", "--since=yesterday": "write a time", "--workspace=x": "--workspace",
		"--follow --since=1h": "leave --since", "--limit=-1": "write 0 or more",
	} {
		commandtest.Run(t, nil, append([]string{"audit"}, strings.Fields(args)...)...).Want(t, 1, problem)
	}
}
