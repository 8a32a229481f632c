package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execFunc runs commands.
type execFunc = func(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error)

func withExec(f execFunc) func(*api.Options) {
	return func(o *api.Options) { o.Containers = executes{exec: f} }
}

// executes implements [Containers], but only runs commands.
type executes struct {
	api.Containers
	exec execFunc
}

func (e executes) Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error) {
	return e.exec(ctx, id, command, stdout, stderr)
}

// execLine is a line of the answer.
type execLine struct {
	Stdout, Stderr *string
	ExitCode       *int `json:"exit_code"`
	Problem        *struct{ Type string }
}

// lines reads an answer.
func lines(t *testing.T, text []byte) (all []execLine) {
	t.Helper()
	for line := range strings.Lines(string(text)) {
		var l execLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, l)
	}
	return all
}

func run(c *apitest.Client, w map[string]any, words ...string) apitest.Reply {
	c.T.Helper()
	return c.Do("POST", apitest.WorkspacePath(w)+"/exec", map[string]any{"command": words})
}

func TestACommandInAWorkspace(t *testing.T) {
	var ran workspace.ID
	in := newHarness(t, withExec(func(_ context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error) {
		ran = id
		text := "한글 \xff\n\"<>\""
		for i := range len(text) { // a character arrives in parts
			if _, err := stdout.Write([]byte{text[i]}); err != nil {
				return 0, err
			}
		}
		fmt.Fprint(stderr, strings.Join(command.Words, "|"), "\xed")
		return 7, nil
	}))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	r := run(ann, w, "sh", "-c", "a b; $HOME")
	var out, errs string
	all := lines(t, r.Text)
	for _, l := range all[:len(all)-1] {
		switch {
		case l.Stdout != nil:
			out += *l.Stdout
		case l.Stderr != nil:
			errs += *l.Stderr
		}
	}
	last := all[len(all)-1]
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "application/x-ndjson" || out != "한글 \ufffd\n\"<>\"" ||
		errs != "sh|-c|a b; $HOME\ufffd" || last.ExitCode == nil || *last.ExitCode != 7 || string(ran) != w["id"] {
		t.Errorf("status %d, %q, %q, %+v\n%s", r.StatusCode, out, errs, last, r.Text)
	}
}

func TestCommandsThatAreRefused(t *testing.T) {
	var answer error
	ran := 0
	in := newHarness(t, withExec(func(_ context.Context, _ workspace.ID, _ backend.Command, _, _ io.Writer) (int, error) {
		ran++
		return 0, answer
	}))
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	w := ann.Create("one")
	for _, body := range []any{
		map[string]any{}, map[string]any{"command": []string{}}, map[string]any{"command": []string{""}}, map[string]any{"command": "ls"},
		map[string]any{"command": []string{"a\x00b"}}, map[string]any{"command": make([]string, 1001)},
	} {
		if p := ann.Do("POST", apitest.WorkspacePath(w)+"/exec", body).Problem(t, 400, "invalid-field"); p["field"] != "command" {
			t.Errorf("%v: %v", body, p)
		}
	}
	run(bob, w, "ls").Problem(t, 404, "not-found")
	run(admin, w, "ls").Problem(t, 404, "not-found") // the content of a home is its owner's alone
	run(ann, map[string]any{"id": "unknown"}, "ls").Problem(t, 404, "not-found")
	ann.Do("POST", apitest.WorkspacePath(w)+"/exec", map[string]any{"command": []string{"ls"}}, "Origin: https://evil.example").Problem(t, 403, "cross-site")
	if ran != 0 {
		t.Errorf("%d commands ran", ran)
	}
	answer = fmt.Errorf("container x: %w", backend.ErrNotFound)
	run(ann, w, "ls").Problem(t, 409, "not-running")
	answer = errors.New("dial unix /secret/docker.sock: connection refused")
	if p := run(ann, w, "ls").Problem(t, 503, "command-lost"); strings.Contains(fmt.Sprint(p), "docker.sock") {
		t.Errorf("it tells what does not answer: %v", p)
	}
}

// TestTheEndOfACommandIsLost: output arrives before the end of a command. If the end gets lost, the answer reports
// this.
func TestTheEndOfACommandIsLost(t *testing.T) {
	in := newHarness(t, withExec(func(_ context.Context, _ workspace.ID, _ backend.Command, stdout, _ io.Writer) (int, error) {
		fmt.Fprint(stdout, "begun")
		return 0, errors.New("the connection has ended")
	}))
	ann := in.signedIn("ann")
	all := lines(t, run(ann, ann.Create("one"), "ls").Text)
	if len(all) != 2 || *all[0].Stdout != "begun" || all[1].Problem == nil || all[1].Problem.Type != "urn:codehub:problem:command-lost" {
		t.Errorf("got %+v", all)
	}
}

// TestWhatEndsACommandsAnswer: when the client, the session or this configuration ends, the call to the engine ends,
// too.
func TestWhatEndsACommandsAnswer(t *testing.T) {
	ended := make(chan error, 20)
	stopping := make(chan struct{})
	in := newHarness(t, withExec(func(ctx context.Context, _ workspace.ID, _ backend.Command, stdout, _ io.Writer) (int, error) {
		fmt.Fprintln(stdout, "begun")
		<-ctx.Done()
		ended <- ctx.Err()
		return 0, ctx.Err()
	}), func(o *api.Options) { o.Stopping = stopping })
	ann := in.signedIn("ann")
	w := ann.Create("one")
	limit, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	begin := func(ctx context.Context, c *apitest.Client, header ...string) *bufio.Reader {
		t.Helper()
		resp := c.Open(ctx, "POST", apitest.WorkspacePath(w)+"/exec", map[string]any{"command": []string{"sleep"}}, header...)
		t.Cleanup(func() { resp.Body.Close() })
		body := bufio.NewReader(resp.Body)
		if line, err := body.ReadString('\n'); err != nil || !strings.Contains(line, "begun") {
			t.Fatalf("%q, %v", line, err)
		}
		return body
	}
	awaitEnd := func(what string) {
		t.Helper()
		select {
		case <-ended:
		case <-time.After(wait.Timeout):
			t.Fatalf("%s does not end the command's call", what)
		}
	}
	gone, leave := context.WithCancel(limit)
	begin(gone, ann)
	leave()
	awaitEnd("a client that has gone")

	made := token(ann, "write")
	begin(limit, in.anyone(), bearer(made))
	if r := ann.Do("DELETE", "/api/v1/tokens/"+made["id"].(string), nil); r.StatusCode != 204 {
		t.Fatal(r.StatusCode)
	}
	awaitEnd("a revoked token")

	// A user may run maxCommands commands at the same time, but not one more.
	var bodies []*bufio.Reader
	for range 16 {
		bodies = append(bodies, begin(limit, ann))
	}
	run(ann, w, "ls").Problem(t, 429, "too-many-commands")
	close(stopping)
	for _, body := range bodies {
		awaitEnd("the end of the configuration")
		if rest, err := io.ReadAll(body); err != nil || !strings.Contains(string(rest), "command-lost") {
			t.Errorf("%q, %v", rest, err)
		}
	}
}
