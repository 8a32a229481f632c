package api_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// dozes makes a workspace run and doze.
func (in *harness) dozes(w map[string]any) {
	in.t.Helper()
	in.exec(`UPDATE workspaces SET phase = 'RUNNING' WHERE id = $1`, w["id"])
	in.exec(`UPDATE workspaces SET doze_at = now() WHERE id = $1`, w["id"])
	in.freezes(w)
}

// freezes writes the same condition as the controller does when it finds that a workspace's container is frozen.
func (in *harness) freezes(w map[string]any) {
	in.t.Helper()
	in.exec(`UPDATE workspaces SET conditions = '{"infra.dozing": {"status": "True"}}' WHERE id = $1`, w["id"])
}

// A command in a dozing workspace counts as use by the owner: it resumes the workspace, and waits until the container
// has resumed.
func TestACommandThawsItsWorkspace(t *testing.T) {
	frozen, again := 3, false
	var in *harness
	in = newHarness(t, withExec(func(ctx context.Context, id workspace.ID, _ backend.Command, stdout, _ io.Writer) (int, error) {
		var dozes bool
		if err := in.db.QueryRow(ctx, `SELECT doze_at IS NOT NULL FROM workspaces WHERE id = $1`, id).Scan(&dozes); err != nil || dozes {
			t.Errorf("a command begins in a workspace that dozes: %v", err)
		}
		if frozen--; frozen >= 0 {
			if again {
				in.exec(`UPDATE workspaces SET doze_at = now() WHERE id = $1`, id)
			}
			return 0, fmt.Errorf("container x: %w", backend.ErrFrozen)
		}
		fmt.Fprint(stdout, "awake")
		return 0, nil
	}))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	in.dozes(w)
	if got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["doze_at"] == nil || got["phase"] != "RUNNING" {
		t.Errorf("dozing: %v", got)
	}
	all := lines(t, run(ann, w, "ls").Text)
	if len(all) != 2 || all[0].Stdout == nil || *all[0].Stdout != "awake" || all[1].ExitCode == nil || frozen != -1 {
		t.Errorf("got %+v, %d", all, frozen)
	}
	got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t)
	if got["doze_at"] != nil || got["last_access_at"] == nil || got["desired_state"] != "RUNNING" {
		t.Errorf("afterwards: %v", got)
	}
	var happened map[string]any
	for _, item := range ann.Do("GET", apitest.WorkspacePath(w)+"/history", nil).Object(t)["items"].([]any) {
		if item := item.(map[string]any); item["kind"] == "thawed" {
			happened = item
		}
	}
	if happened == nil || happened["username"] != "ann" || happened["cause"] != "api" {
		t.Errorf("the history: %v", happened)
	}

	// The workspace dozes again just as the command begins.
	frozen, again = 1, true
	if all := lines(t, run(ann, w, "ls").Text); len(all) != 2 || all[1].ExitCode == nil {
		t.Errorf("got %+v", all)
	}
}

// A dozing workspace does not count as running: when the limit is reached, no command runs in it.
func TestACommandNeedsAPlaceToThaw(t *testing.T) {
	ran := 0
	in := newHarness(t, withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		ran++
		return 0, nil
	}))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	in.dozes(w)
	ann.Create("two")
	ann.Create("three") // the limit is 2
	run(ann, w, "ls").Problem(t, 429, "limit-reached")
	ann.Do("POST", apitest.WorkspacePath(w)+"/keep-awake", map[string]any{"hours": 1}).Problem(t, 429, "limit-reached")
	ann.Do("POST", apitest.WorkspacePath(w)+"/start", nil).Problem(t, 429, "limit-reached")
	if got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["doze_at"] == nil || ran != 0 {
		t.Errorf("%d commands ran, %v", ran, got)
	}
	if a := ann.Do("POST", apitest.WorkspacePath(w)+"/sleep", nil).Object(t); a["desired_state"] != "STANDBY" || a["doze_at"] != nil {
		t.Errorf("asleep: %v", a)
	}
}

// A container that a person has paused does not resume by itself: a command fails immediately. If a container does not
// resume in time, the command fails at the end of that time.
func TestACommandInAPausedContainer(t *testing.T) {
	asked := 0
	paused := withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		asked++
		return 0, backend.ErrFrozen
	})
	in := newHarness(t, paused)
	admin := in.signedIn("admin")
	w := admin.Create("one")
	in.exec(`UPDATE workspaces SET phase = 'RUNNING', conditions =
		'{"infra.container_ready": {"status": "False", "reason": "ContainerPaused"}}' WHERE id = $1`, w["id"])
	run(admin, w, "ls").Problem(t, 409, "not-running")
	if asked != 1 {
		t.Errorf("it was asked %d times", asked)
	}
	impatient := in.another(paused, func(o *api.Options) { o.ThawTimeout = time.Millisecond })
	admin = impatient.signedIn("admin")
	in.exec(`UPDATE workspaces SET conditions = '{}' WHERE id = $1`, w["id"])
	run(admin, w, "ls").Problem(t, 409, "not-running")
}

// Streams report that a workspace dozes and that it resumes, although nothing else changes.
func TestAStreamTellsWhatDozes(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	in.exec(`UPDATE workspaces SET phase = 'RUNNING' WHERE id = $1`, w["id"])
	stream := openStream(t, ann)
	stream.until("heartbeat", nil)
	in.exec(`UPDATE workspaces SET doze_at = now() WHERE id = $1`, w["id"])
	if said := stream.until("workspace_updated", map[string]any{"phase": "RUNNING"}); said["doze_at"] != nil {
		t.Errorf("before its container is frozen: %v", said)
	}
	in.freezes(w)
	for stream.until("workspace_updated", map[string]any{"phase": "RUNNING"})["doze_at"] == nil {
	}
	if a := ann.Do("POST", apitest.WorkspacePath(w)+"/start", nil); a.StatusCode != 200 || a.Object(t)["doze_at"] != nil {
		t.Errorf("started: %d %s", a.StatusCode, a.Text)
	}
	for stream.until("workspace_updated", map[string]any{"phase": "RUNNING"})["doze_at"] != nil {
	}
}
