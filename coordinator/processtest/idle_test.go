package processtest

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Scenarios of currently unused workspaces, and of the features that make resuming them quick.

// dozed lets an idle workspace doze, and then uses it. Its programs must continue. Then it falls asleep while it dozes.
var dozed = []step{
	{"created and used", func(t testing.TB, h *home) { createdStep.do(t, h); h.beginProgram(t) }},
	{"dozes", func(t testing.TB, h *home) {
		h.keepAwake(t, 0)
		h.awaitFrozen(t)
	}},
	{"used again", func(t testing.TB, h *home) {
		h.use(t)
		wait.Until(t, "the use has ended the doze", func() bool {
			return postgrestest.Value[bool](t, h.own, `SELECT EXISTS (SELECT FROM workspace_history
				WHERE workspace_id = $1 AND kind = 'thawed' AND cause = 'gateway')`, string(h.id))
		})
		h.keepAwake(t, longEnough) // or it dozes again
		h.runs(t)
		h.programGoesOn(t)
		h.write(t, "two")
	}},
	{"dozes again", func(t testing.TB, h *home) {
		h.keepAwake(t, 0)
		// A killed process may have known of a use, so the leader waits before it lets workspaces doze. h.doze does not
		// wait.
		wait.Until(t, "it dozes", func() bool { return h.doze(t) || !h.row(t).DozeAt.IsZero() })
		h.awaitFrozen(t)
	}},
	asleepStep,
	{"awake", func(t testing.TB, h *home) { h.runs(t) }},
}

// keptAwake makes a workspace that runs and does not doze.
func keptAwake(t testing.TB, in *installation) *home {
	h := in.create(t)
	h.keepAwake(t, longEnough)
	return h
}

// runs starts the workspace and keeps it awake. It fails the test unless the workspace runs with the right files and is
// not frozen.
func (h *home) runs(t testing.TB) {
	t.Helper()
	h.want(t, workspace.DesiredRunning)
	h.keepAwake(t, longEnough)
	h.await(t, workspace.PhaseRunning)
	wait.Until(t, "its container is not frozen", func() bool { return h.container(t).State != inspect.Frozen })
	h.check(t)
}

// doze lets the workspace doze, as the TTL runner does, if it runs and is not kept awake. It reports whether it
// did.
func (h *home) doze(t testing.TB) bool {
	t.Helper()
	dozes, err := h.store.Doze(t.Context(), h.id, time.Now().Add(longEnough), store.DozingLimits{})
	if err != nil {
		t.Fatal(err)
	}
	return dozes
}

// awaitFrozen returns when the container is frozen.
func (h *home) awaitFrozen(t testing.TB) {
	t.Helper()
	wait.Until(t, "its container is frozen", func() bool { return h.container(t).State == inspect.Frozen })
}

// beginProgram starts a program in the container. The program ends when the container's main program ends.
func (h *home) beginProgram(t testing.TB) {
	t.Helper()
	h.exec(t, nil, "sleep 86400 </dev/null >/dev/null 2>&1 & echo $! >/dev/shm/program")
}

// programGoesOn fails the test unless that program still runs: neither the container nor the program was started
// again.
func (h *home) programGoesOn(t testing.TB) {
	t.Helper()
	const question = "kill -0 $(cat /dev/shm/program) 2>/dev/null && echo yes || echo no"
	var answer string
	wait.Until(t, "it is known whether the program goes on", func() bool { answer = string(h.exec(t, nil, question)); return answer != "" })
	if answer != "yes\n" {
		t.Error("the container that dozed goes on without its programs")
	}
}

// warm lets a workspace sleep while its network is kept, and starts it with that network. Then it lets the workspace
// sleep again, archives it and restores it.
var warm = []step{
	createdStep,
	warmStep,
	{"awake", func(t testing.TB, h *home) {
		kept, _ := h.sandbox(t)
		awakeStep.do(t, h)
		if _, joined := h.sandbox(t); kept != "" && !joined {
			t.Errorf("the workspace has started without its network %s", kept)
		}
	}},
	warmStep,
	archivedStep,
	awakeStep,
}

// warmStep lets the workspace sleep. The workspace's network is kept, unless the process that should keep it is
// trapped. Without its network, the workspace takes longer to start.
var warmStep = step{"asleep with its network", func(t testing.TB, h *home) {
	began := h.term(t)
	before, _ := h.sandbox(t)
	asleepStep.do(t, h)
	wait.Until(t, "its network is kept, or another process leads", func() bool {
		now, _ := h.sandbox(t)
		return now != "" && now != before || h.term(t) != began
	})
}}

// sandbox returns the name of the running sandbox that holds the workspace's network, or "". joined reports whether the
// workspace's container has joined a sandbox.
func (h *home) sandbox(t testing.TB) (name string, joined bool) {
	t.Helper()
	return h.installation.sandbox(t, string(h.id))
}

// sandbox returns the sandbox of a workspace, or of any workspace for "".
func (in *installation) sandbox(t testing.TB, workspace string) (name string, joined bool) {
	t.Helper()
	name, joined, err := in.engine.(*inspect.Docker).Sandbox(t.Context(), workspace)
	if err != nil {
		t.Fatal(err)
	}
	return name, joined
}
