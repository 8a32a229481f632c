package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/docker/go-units"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/control/history"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// Settings of earlier releases are accepted, each with a warning that says what to do. Settings
// that never existed are still refused.
func TestRemovedSettings(t *testing.T) {
	p := NewOptionParser(caddyfile.NewTestDispenser(`codehub {
		coordinator {
			sweep_interval {env.COORDINATOR_SWEEP_INTERVAL}
			max_jobs 6
		}
		pools {
			size 2
		}
		activity traffic
	}`), "codehub", new(App).Table(new(Resolved)))
	p.removed = maps.Clone(removed)
	p.removed["pools"] = "they grow by themselves now" // a whole block
	if err := p.Read(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`the setting "coordinator sweep_interval" was removed and has no effect: remove it; it is fixed at 5m now, at Testfile:3`,
		`the setting "pools" was removed and has no effect: remove it; they grow by themselves now`,
	}
	for i, w := range p.warnings {
		if i >= len(want) || !strings.HasPrefix(w, want[i]) {
			t.Errorf("warned %q", w)
		}
	}
	if len(p.warnings) != len(want) || !strings.HasSuffix(p.warnings[1], ", at Testfile:6") {
		t.Errorf("%d warnings: %q", len(p.warnings), p.warnings)
	}

	var a App
	text := `{"database": "x", "coordinator": {"max_pulls": 3, "max_jobs": 6, "sweep_interval": "1m"},
		"limits": {"max_held_per_user": "50"}}`
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	if w := a.Warnings(); len(w) != 3 || w[0] != warning("coordinator max_pulls", removed["coordinator max_pulls"]) || a.Database != "x" || a.Coordinator.MaxJobs != "6" {
		t.Errorf("read %+v with %q", a, w)
	}
	for _, text := range []string{`{"coordinator": {"max_pull": 3}}`, `{"coordinator": {"max_pulls": 3}, "ttls": {}}`, `{"coordinator": 3}`} {
		if err := json.Unmarshal([]byte(text), new(App)); err == nil {
			t.Errorf("%s is taken", text)
		}
	}
}

// What the warnings say about a removed setting is true: the value that they name is the value that applies instead.
func TestRemovedSettingsAreFixed(t *testing.T) {
	s := coordinator.DefaultSettings()
	for name, value := range map[string]any{
		"coordinator gc_max_share":      gc.MaxShare,
		"coordinator gc_upload_expiry":  s.GC.UploadExpiry,
		"coordinator history_retention": history.Retention,
		"coordinator max_pulls":         reconcile.MaxPulls,
		"coordinator operation_limit":   planner.OperationLimit,
		"coordinator prepull_interval":  s.Reconcile.PrepullInterval,
		"coordinator stable_after":      planner.StableAfter,
		"coordinator sweep_interval":    s.Reconcile.SweepInterval,
		"coordinator wait_limit":        s.Reconcile.WaitLimit,
		"kubernetes job_memory":         units.BytesSize(spec.DefaultJobMemory),
		"kubernetes job_scratch":        units.BytesSize(spec.DefaultJobScratch),
		"timeouts archiving":            s.Reconcile.Timeouts[workspace.OpArchiving],
		"timeouts create_empty_archive": s.Reconcile.Timeouts[workspace.OpCreateEmptyArchive],
		"timeouts deleting":             s.Reconcile.Timeouts[workspace.OpDeleting],
		"timeouts provisioning":         s.Reconcile.Timeouts[workspace.OpProvisioning],
		"timeouts restoring":            s.Reconcile.Timeouts[workspace.OpRestoring],
		"timeouts stopping":             s.Reconcile.Timeouts[workspace.OpStopping],
		"work cpu":                      s.TTL.Work.CPU,
	} {
		stated := strings.TrimSuffix(strings.TrimPrefix(removed[name], "it is fixed at "), " now")
		if d, err := time.ParseDuration(stated); err == nil {
			stated = d.String()
		}
		if stated != fmt.Sprint(value) {
			t.Errorf("%s: %s, want %v", name, removed[name], value)
		}
	}
	if activator.DefaultShare != 10 {
		t.Errorf("one user's share is one in %d", activator.DefaultShare)
	}
}
