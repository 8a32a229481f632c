package api_test

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
)

func TestHomeSize(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	if got, ok := w["home"]; !ok || got != nil {
		t.Errorf("never measured: %v, want null", got)
	}
	in.exec(`UPDATE workspaces SET home_bytes = 12, home_files = 3, home_at_least = true, home_measured_at = '2026-01-02T03:04:05Z' WHERE id = $1`, w["id"])
	got, _ := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t)["home"].(map[string]any)
	for name, want := range map[string]any{"bytes": 12.0, "files": 3.0, "at_least": true, "measured_at": "2026-01-02T03:04:05Z", "large": false} {
		if got[name] != want {
			t.Errorf("%s: %v, want %v", name, got[name], want)
		}
	}
}
