package api_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
)

func TestKeepAwake(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	w := ann.Create("one")
	path := apitest.WorkspacePath(w) + "/keep-awake"
	for _, field := range []string{"keep_awake_until", "sleep_at", "sleep_due_at", "busy", "page_activity"} {
		if got, ok := w[field]; !ok || got != nil {
			t.Errorf("%s: got %v, want null", field, got)
		}
	}
	a := ann.Do("POST", path, map[string]any{"hours": 4})
	until, err := time.Parse(time.RFC3339, a.Object(t)["keep_awake_until"].(string))
	if d := time.Until(until); a.StatusCode != 200 || err != nil || d < 3*time.Hour+50*time.Minute || d > 4*time.Hour+time.Minute {
		t.Errorf("got status %d, %s from now, %v", a.StatusCode, d, err)
	}
	bob.Do("POST", path, map[string]any{"hours": 1}).Problem(t, 404, "not-found")
	for _, body := range []string{`{}`, `{"hours": null}`, `{"hours": -1}`, `{"hours": 8.5}`, `{"hours": 1e99}`, `{"hours": "4"}`} {
		if p := ann.Do("POST", path, body).Problem(t, 400, "invalid-field"); p["field"] != "hours" {
			t.Errorf("%s: %v", body, p)
		}
	}
	in.exec(`UPDATE workspaces SET phase = 'RUNNING' WHERE id = $1`, w["id"])
	if got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["sleep_due_at"] != a.Object(t)["keep_awake_until"] {
		t.Errorf("it runs and is kept awake until %v: it sleeps at %v", a.Object(t)["keep_awake_until"], got["sleep_due_at"])
	}
	in.exec(`UPDATE workspaces SET busy = '{"reason": "BusyFile", "detail": "a build", "since": "2026-01-02T03:04:05Z"}', sleep_at = now(), page_activity = 'traffic' WHERE id = $1`, w["id"])
	got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t)
	if busy, _ := got["busy"].(map[string]any); busy["reason"] != "BusyFile" || busy["detail"] != "a build" || got["sleep_at"] == nil || got["page_activity"] != "traffic" {
		t.Errorf("got %v", got)
	}
	if got := ann.Do("POST", path, `{"hours": 0}`).Object(t); got["sleep_at"] != nil {
		t.Errorf("it is not kept awake any more, and to sleep at %v without another look", got["sleep_at"])
	}
	// Putting the workspace to sleep ends the request to keep it awake.
	ann.Do("POST", path, `{"hours": 1}`)
	if got := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"desired_state": "STANDBY"}).Object(t); got["keep_awake_until"] != nil || got["busy"] != nil {
		t.Errorf("asleep: %v", got)
	}
	ann.Do("POST", path, `{"hours": 1}`).Problem(t, 409, "not-awake")
	ann.Do("DELETE", apitest.WorkspacePath(w), nil)
	ann.Do("POST", path, `{"hours": 1}`).Problem(t, 404, "not-found")
}

// A workspace in ERROR can be put to sleep. It then does not start after its recovery, and does not count against the
// limit.
func TestAWorkspaceInErrorCanBePutToSleep(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	in.fail(w, "DataLost")
	ann.Create("two")
	ann.Create("three") // the limit is 2
	if got := ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"desired_state": "STANDBY"}).Object(t); got["desired_state"] != "STANDBY" || got["phase"] != "ERROR" {
		t.Errorf("got %v", got)
	}
}
