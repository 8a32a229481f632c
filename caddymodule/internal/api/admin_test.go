package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// administration implements api.Administration as far as this needs only the database. The test sets the result of a
// garbage collection.
type administration struct {
	store   *store.Store
	collect func(ctx context.Context, dry bool, each func(gc.Judgement) error) (gc.Report, error)
}

func (a administration) Overview(ctx context.Context) (o coordinator.Overview, err error) {
	if o.Overview, err = a.store.Overview(ctx); err == nil {
		o.Scrub, err = a.store.Scrub(ctx)
	}
	return o, err
}

func (a administration) Collect(ctx context.Context, dry bool, each func(gc.Judgement) error) (gc.Report, error) {
	return a.collect(ctx, dry, each)
}

func (a administration) Scrub(ctx context.Context, dry bool) (store.Scrub, error) {
	if !dry {
		if err := a.store.RequestScrub(ctx); err != nil {
			return store.Scrub{}, err
		}
	}
	return a.store.Scrub(ctx)
}

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
	for _, path := range []string{"gc", "scrub"} {
		ann.Do("POST", "/api/v1/admin/"+path, map[string]any{"dry_run": true}).Problem(t, 403, "forbidden")
	}
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
		o.Administration = administration{collect: func(_ context.Context, d bool, each func(gc.Judgement) error) (gc.Report, error) {
			dry = d
			for i := range 1002 {
				verdict := gc.Due
				if i == 0 {
					verdict = gc.Protected
				}
				f := gc.Judgement{Key: fmt.Sprint(i), Size: gc.UnknownSize, Modified: time.Now(), Verdict: verdict, Reason: gc.ReportedUnknown}
				if i == 1 {
					f.FirstSeen, f.Age, f.Left = time.Now().Add(-10*time.Minute), 10*time.Minute, 50*time.Minute
				}
				if err := each(f); err != nil {
					return gc.Report{}, err
				}
			}
			return gc.Report{Archives: 1002, Due: 1001}, err
		}}
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
	for i, want := range []any{3000.0, nil} {
		if f := c["items"].([]any)[i].(map[string]any); f["deleted_in_seconds"] != want {
			t.Errorf("the finding is %v", f)
		}
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

func TestReadingArchivesBackOnCommand(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	one, gone := ann.Create("one"), ann.Create("gone")
	in.exec(`UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED' WHERE id = $1`, gone["id"])
	in.exec(`INSERT INTO archives (workspace_id, key, size, checked_at) VALUES ($1, 'a', 32 << 20, NULL),
		($1, 'b', 64 << 20, '2026-01-02T03:04:05Z'), ($2, 'c', 7, NULL)`, one["id"], gone["id"])
	scrub := func(dry bool, status int, want string) {
		t.Helper()
		a := admin.Do("POST", "/api/v1/admin/scrub", map[string]any{"dry_run": dry})
		s := a.Object(t)
		got := fmt.Sprint([]any{s["dry_run"], s["archives"], s["size_bytes"], s["unread"], s["oldest_read_at"], s["seconds"], s["to_read"], s["to_read_bytes"]})
		if a.StatusCode != status || got != want {
			t.Errorf("dry %v: %d %s, want %d %s", dry, a.StatusCode, got, status, want)
		}
	}
	toRead := func(want string) {
		t.Helper()
		a := admin.Do("GET", "/api/v1/admin/overview", nil).Object(t)["archives"].(map[string]any)
		if got := fmt.Sprint(a["to_read"], a["to_read_bytes"]); got != want {
			t.Errorf("the overview has %s, want %s", got, want)
		}
	}
	scrub(true, 200, "[true 2 1.00663296e+08 1 2026-01-02T03:04:05Z 3 0 0]")
	toRead("0 0")
	scrub(false, 202, "[false 2 1.00663296e+08 1 2026-01-02T03:04:05Z 3 2 1.00663296e+08]")
	in.exec(`UPDATE archives SET requested_at = NULL, checked_at = '2026-01-03T00:00:00Z' WHERE key = 'b'`)
	toRead("1 3.3554432e+07")
	scrub(true, 200, "[true 2 1.00663296e+08 1 2026-01-03T00:00:00Z 3 1 3.3554432e+07]")
	in.exec(`DELETE FROM archives`)
	scrub(false, 202, "[false 0 0 0 <nil> 0 0 0]")
	if p := admin.Do("POST", "/api/v1/admin/scrub", map[string]any{}).Problem(t, 400, "invalid-field"); p["field"] != "dry_run" {
		t.Errorf("nothing said: %v", p)
	}
}
