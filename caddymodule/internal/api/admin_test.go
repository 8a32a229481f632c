package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestTheOverviewCountsAllWorkspaces(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	first := ann.Create("first")
	admin.Create("second")
	in.fail(first, workspace.ReasonDataLost)
	gone := ann.Create("gone")
	if a := ann.Do("DELETE", "/api/v1/workspaces/"+fmt.Sprint(gone["id"]), nil); a.StatusCode != 202 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	in.exec(`UPDATE workspaces SET home_bytes = 5, waiting = '{"reason": "JobQueued"}' WHERE name = 'second'`)
	in.exec(`SET codehub.schema = '999'`) // it may lead
	in.exec(`INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator', 'there', 7)`)
	o := admin.Do("GET", "/api/v1/admin/overview", nil).Object(t)
	got := fmt.Sprint(o["phases"], o["waiting"], o["errors"], o["running"], o["max_running_global"], o["deleted"], o["users"], o["home_bytes"], o["disk"])
	if want := "map[ERROR:1 PENDING:1] map[JobQueued:1] map[DataLost:1] 1 100 1 2 5 <nil>"; got != want {
		t.Errorf("the overview is %s, want %s", got, want)
	}
	if leader := o["leaders"].([]any)[0].(map[string]any); leader["node_id"] != "there" || leader["epoch"] != 7.0 {
		t.Errorf("the leader is %v", leader)
	}
	if o["node_id"] != "here" || fmt.Sprint(o["problems"]) != "[the bucket is another one]" {
		t.Errorf("this process is %v: %v", o["node_id"], o["problems"])
	}
	for _, path := range []string{"overview", "history"} {
		ann.Do("GET", "/api/v1/admin/"+path, nil).Problem(t, 403, "forbidden")
	}
	ann.Do("POST", "/api/v1/admin/gc", map[string]any{"dry_run": true}).Problem(t, 403, "forbidden")
}

func TestTheHistoryOfAllWorkspaces(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	ann.Create("first")
	admin.Create("second")
	ann.Create("third")
	in.exec(`INSERT INTO workspace_history (workspace_id, kind, new_value, cause) SELECT id, 'waiting', 'JobQueued', 'controller' FROM workspaces`)
	var got []string
	before := ""
	for {
		page := admin.Do("GET", "/api/v1/admin/history?limit=2"+before, nil).Object(t)
		for _, item := range page["items"].([]any) {
			e := item.(map[string]any)
			got = append(got, fmt.Sprint(e["kind"], " ", e["name"], " ", e["owner_username"], " ", e["username"]))
		}
		if page["next_before"] == nil {
			break
		}
		before = fmt.Sprintf("&before=%.0f", page["next_before"])
	}
	if want := "[created third ann ann created second admin admin created first ann ann]"; fmt.Sprint(got) != want {
		t.Errorf("the history is %v, want %s", got, want)
	}
	for _, query := range []string{"limit=0", "before=-1", "limit=x"} {
		admin.Do("GET", "/api/v1/admin/history?"+query, nil).Problem(t, 400, "invalid-field")
	}
}

func TestCollectingArchivesOnCommand(t *testing.T) {
	var dry bool
	var err error
	in := newHarness(t, func(o *api.Options) {
		o.Collect = func(_ context.Context, d bool, each func(gc.Finding) error) (gc.Report, error) {
			dry = d
			for i := range 1002 {
				verdict := gc.Due
				if i == 0 {
					verdict = gc.Protected
				}
				f := gc.Finding{Key: fmt.Sprint(i), Size: gc.UnknownSize, Modified: time.Now(), Verdict: verdict, Reason: gc.ReportedUnknown}
				if err := each(f); err != nil {
					return gc.Report{}, err
				}
			}
			return gc.Report{Archives: 1002, Due: 1001}, err
		}
	})
	admin := in.signedIn("admin")
	collect := func(body any) map[string]any {
		t.Helper()
		return admin.Do("POST", "/api/v1/admin/gc", body).Object(t)
	}
	c := collect(map[string]any{"dry_run": true})
	if !dry || c["more"] != true || len(c["items"].([]any)) != 1000 || c["stopped"] != nil || c["report"].(map[string]any)["due"] != 1001.0 {
		t.Errorf("dry %v: %v of %v", dry, c["report"], len(c["items"].([]any)))
	}
	if collect(map[string]any{"dry_run": false}); dry {
		t.Error("it was a dry run")
	}
	err = &gc.CircuitBreakerError{Unknown: 30, Archives: 40}
	if c := collect(map[string]any{"dry_run": false}); c["stopped"] == nil {
		t.Errorf("stopped: %v", c)
	}
	err = &postgres.BusyError{Holder: "there"}
	admin.Do("POST", "/api/v1/admin/gc", map[string]any{"dry_run": false}).Problem(t, 409, "operation-in-progress")
	if p := admin.Do("POST", "/api/v1/admin/gc", map[string]any{}).Problem(t, 400, "invalid-field"); p["field"] != "dry_run" {
		t.Errorf("nothing said: %v", p)
	}
}
