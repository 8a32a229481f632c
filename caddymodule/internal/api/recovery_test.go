package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inventory lists what exists of each workspace in a test.
type inventory struct {
	Volume   *workspace.Volume
	Archives []workspace.ArchiveVersion
}

// Inventory implements [service.Inventory].
func (i *inventory) Inventory(context.Context, workspace.ID) (workspace.Inventory, error) {
	return workspace.Inventory{Volume: i.Volume, Archives: slices.Clone(i.Archives)}, nil
}

// Versions implements [service.Inventory].
func (i *inventory) Versions(context.Context, workspace.ID) ([]workspace.ArchiveVersion, error) {
	return slices.Clone(i.Archives), nil
}

var _ service.Inventory = (*inventory)(nil)

// keys returns the keys of two archives of a workspace.
func keys(w map[string]any) (key1, key2 string) {
	id := workspace.ID(w["id"].(string))
	return id.ArchiveKey("00000000-0000-4000-9000-000000000001"), id.ArchiveKey("00000000-0000-4000-9000-000000000002")
}

// fail puts a workspace into ERROR.
func (in *harness) fail(w map[string]any, reason workspace.ErrorReason) {
	in.t.Helper()
	in.exec("UPDATE workspaces SET phase = 'ERROR', operation = 'NONE', error_reason = $2, error_message = 'gone', error_count = 3 WHERE id = $1", w["id"], string(reason))
}

// recovery returns the recovery that was recorded for the controller.
func (in *harness) recovery(w map[string]any) (r workspace.Recovery) {
	in.t.Helper()
	if err := in.db.QueryRow(in.t.Context(), "SELECT recovery FROM workspaces WHERE id = $1", w["id"]).Scan(&r); err != nil {
		in.t.Fatal(err)
	}
	return r
}

func TestRecoveryIsForAdministrators(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	w := ann.Create("broken")
	in.fail(w, workspace.ReasonRetryExceeded)
	if got := admin.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["error_reason"] != "RetryExceeded" || got["error_message"] != "gone" || got["error_count"] != 3.0 {
		t.Errorf("got %v", got)
	}
	ann.Do("POST", apitest.WorkspacePath(w)+"/recover", nil).Problem(t, 403, "forbidden")
	ann.Do("POST", "/api/v1/workspaces/recover", map[string]any{"reason": "RetryExceeded"}).Problem(t, 403, "forbidden")
	a := admin.Do("POST", apitest.WorkspacePath(w)+"/recover", nil)
	if got := a.Object(t); a.StatusCode != 200 || got["error_reason"] != nil || got["error_count"] != 0.0 {
		t.Errorf("got status %d: %s", a.StatusCode, a.Text)
	}
}

// Recovering lost files without naming a copy must never pick one automatically (SPEC 12.9).
func TestRecoveryOfLostFilesListsWhatExistsAndTakesAChoice(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	w := admin.Create("lost")
	key1, key2 := keys(w)
	in.exec(`UPDATE workspaces SET archive_key = $2, home_ctx = '{"dirty": true}' WHERE id = $1`, w["id"], key2)
	path := apitest.WorkspacePath(w) + "/recover"
	in.fail(w, workspace.ReasonDataLost)
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	in.inventory.Archives = []workspace.ArchiveVersion{
		{Key: key2, Size: 5_000_000, Modified: at}, {Key: key1, Size: 7, Modified: at.Add(-time.Hour)},
	}

	p := admin.Do("POST", path, nil).Problem(t, 409, "choice-needed")
	want := map[string]any{
		"reason": "DataLost", "volume": nil,
		"archives": []any{
			map[string]any{"key": key2, "size_bytes": 5e6, "modified": "2026-11-20T10:00:00Z", "current": true},
			map[string]any{"key": key1, "size_bytes": 7.0, "modified": "2026-11-20T09:00:00Z", "current": false},
		},
		"choices": []any{
			map[string]any{"choice": "archive", "key": key2}, map[string]any{"choice": "archive", "key": key1}, map[string]any{"choice": "empty"},
		},
	}
	for name, value := range want {
		if got := fmt.Sprint(p[name]); got != fmt.Sprint(value) {
			t.Errorf("%s: got %s, want %v", name, got, value)
		}
	}
	if got := admin.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["error_reason"] != "DataLost" {
		t.Errorf("the error is gone: %v", got)
	}

	// Every offered choice is a valid body for the same path.
	choice := p["choices"].([]any)[1]
	a := admin.Do("POST", path, choice)
	if got := a.Object(t); a.StatusCode != 200 || got["error_reason"] != nil {
		t.Fatalf("got status %d: %s", a.StatusCode, a.Text)
	}
	if r := in.recovery(w); r.Choice != workspace.RecoverArchive || r.Key != key1 || r.ID == "" {
		t.Errorf("the controller is told %+v", r)
	}
}

func TestRecoveryThatGivesUpAVolumeMustSaySo(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	w := admin.Create("conflict")
	key1, _ := keys(w)
	path := apitest.WorkspacePath(w) + "/recover"
	in.fail(w, workspace.ReasonConflict)
	in.inventory.Volume = &workspace.Volume{OpID: "x", CreatedAt: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
	in.inventory.Archives = []workspace.ArchiveVersion{{Key: key1, Size: 7, Modified: time.Now()}}

	p := admin.Do("POST", path, nil).Problem(t, 409, "choice-needed")
	if got := fmt.Sprint(p["volume"]); got != "map[created_at:2026-11-21T08:00:00Z]" {
		t.Errorf("the volume is %s", got)
	}
	if choices := p["choices"].([]any); len(choices) != 3 || fmt.Sprint(choices[0]) != "map[choice:volume]" ||
		choices[1].(map[string]any)["replace_volume"] != true || choices[2].(map[string]any)["replace_volume"] != true {
		t.Errorf("the choices are %v", choices)
	}
	admin.Do("POST", path, map[string]any{"choice": "empty"}).Problem(t, 409, "choice-needed")
	admin.Do("POST", path, map[string]any{"choice": "archive", "key": key1}).Problem(t, 409, "choice-needed")
	if a := admin.Do("POST", path, map[string]any{"choice": "volume"}); a.StatusCode != 200 {
		t.Fatalf("got status %d: %s", a.StatusCode, a.Text)
	}
	if r := in.recovery(w); r.Choice != workspace.RecoverVolume {
		t.Errorf("the controller is told %+v", r)
	}
}

func TestRecoveryOfAllThatShareAReason(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	lost, other := ann.Create("lost"), ann.Create("other")
	in.fail(lost, workspace.ReasonDataLost)
	in.fail(other, workspace.ReasonTimeout)

	a := admin.Do("POST", "/api/v1/workspaces/recover", map[string]any{"reason": "DataLost"})
	var got v1.Recoveries
	if err := json.Unmarshal(a.Text, &got); err != nil || a.StatusCode != 200 {
		t.Fatalf("status %d, %v: %s", a.StatusCode, err, a.Text)
	}
	if len(got.Recovered) != 0 || len(got.Failed) != 1 || got.Failed[0].ID != workspace.ID(lost["id"].(string)) ||
		!strings.HasSuffix(got.Failed[0].Problem.Type, ":choice-needed") {
		t.Errorf("got %s", a.Text)
	}
	a = admin.Do("POST", "/api/v1/workspaces/recover", map[string]any{"reason": "DataLost", "choice": "empty"})
	if err := json.Unmarshal(a.Text, &got); err != nil || len(got.Recovered) != 1 || len(got.Failed) != 0 {
		t.Errorf("status %d, %v: %s", a.StatusCode, err, a.Text)
	}
	if w := ann.Do("GET", apitest.WorkspacePath(other), nil).Object(t); w["error_reason"] != "Timeout" {
		t.Errorf("another reason was recovered: %v", w)
	}
}

func TestBadRecoveries(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	one := apitest.WorkspacePath(admin.Create("one")) + "/recover"
	for _, c := range []struct{ path, body, field string }{
		{one, `{"choice": "both"}`, "choice"},
		{one, `{"choice": "archive"}`, "key"},
		{one, `{"choice": "empty", "key": "x"}`, "key"},
		{one, `{"replace": true}`, "replace"},
		{"/api/v1/workspaces/recover", `{}`, "reason"},
		{"/api/v1/workspaces/recover", `{"reason": "DataLost", "choice": "x"}`, "choice"},
	} {
		if p := admin.Do("POST", c.path, c.body).Problem(t, 400, "invalid-field"); p["field"] != c.field {
			t.Errorf("%s %s: the field is %v", c.path, c.body, p["field"])
		}
	}
	admin.Do("GET", "/api/v1/workspaces/recover", nil).Problem(t, 404, "not-found")
	admin.Do("PUT", "/api/v1/workspaces/recover", `{}`).Problem(t, 405, "method-not-allowed")
}

func TestDeletionCanBeUndone(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.DeletionDelay = 2 * time.Hour })
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	w := ann.Create("mistake")
	deleted := func(c *apitest.Client) []any {
		t.Helper()
		return c.Do("GET", "/api/v1/workspaces?deleted=true", nil).Object(t)["items"].([]any)
	}
	if got := ann.Do("GET", apitest.WorkspacePath(w), nil).Object(t); got["undelete_until"] != nil || got["waiting"] != nil {
		t.Errorf("got %v", got)
	}
	if a := ann.Do("DELETE", apitest.WorkspacePath(w), nil); a.StatusCode != 202 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	items := deleted(ann)
	if len(items) != 1 {
		t.Fatalf("got %v", items)
	}
	found := items[0].(map[string]any)
	at, _ := time.Parse(time.RFC3339, fmt.Sprint(found["deleted_at"]))
	until, err := time.Parse(time.RFC3339, fmt.Sprint(found["undelete_until"]))
	if err != nil || until.Sub(at) != 2*time.Hour {
		t.Errorf("deleted at %v, can be undone until %v", found["deleted_at"], found["undelete_until"])
	}
	// Users see only their own.
	if n := len(deleted(bob)) + len(deleted(admin)); n != 0 {
		t.Errorf("others see %d", n)
	}
	bob.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil).Problem(t, 404, "not-found")
	a := ann.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil)
	if got := a.Object(t); a.StatusCode != 200 || got["deleted_at"] != nil || got["desired_state"] != "ARCHIVED" {
		t.Errorf("status %d: %s", a.StatusCode, a.Text)
	}
	if n := len(deleted(ann)); n != 0 {
		t.Errorf("%d are still deleted", n)
	}

	ann.Do("DELETE", apitest.WorkspacePath(w), nil)
	in.exec("UPDATE workspaces SET collected_at = now() WHERE id = $1", w["id"])
	ann.Do("POST", apitest.WorkspacePath(w)+"/undelete", nil).Problem(t, 410, "collected")
	if n := len(deleted(ann)); n != 0 {
		t.Errorf("what cannot be undone is listed")
	}
}

func TestOwnersPurgeWhatTheyHaveDeleted(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	w := ann.Create("one")
	ann.Do("DELETE", apitest.WorkspacePath(w), nil)
	in.exec(`INSERT INTO archives (workspace_id, key, size, created_at) VALUES ($1, 'a', 700, now()), ($1, 'b', 42, now())`, w["id"])
	listed := func() map[string]any {
		return ann.Do("GET", "/api/v1/workspaces?deleted=true", nil).Object(t)["items"].([]any)[0].(map[string]any)
	}
	if got := listed(); got["kept_bytes"] != 742.0 || got["undelete_until"] == nil {
		t.Errorf("got %v", got)
	}
	o := in.signedIn("admin").Do("GET", "/api/v1/admin/overview", nil).Object(t)
	if o["deleted"] != 1.0 || o["deleted_bytes"] != 742.0 {
		t.Errorf("the overview has %v, %v", o["deleted"], o["deleted_bytes"])
	}
	bob.Do("DELETE", apitest.WorkspacePath(w)+"?now=true", nil).Problem(t, 404, "not-found")
	ann.Do("DELETE", apitest.WorkspacePath(w), nil).Problem(t, 404, "not-found")
	if a := ann.Do("DELETE", apitest.WorkspacePath(w)+"?now=true", nil); a.StatusCode != 202 {
		t.Errorf("status %d: %s", a.StatusCode, a.Text)
	}
	if got := listed(); got["undelete_until"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestDeletingAtOnceIsForAdministrators(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	w := ann.Create("one")
	ann.Do("DELETE", apitest.WorkspacePath(w)+"?now=true", nil).Problem(t, 403, "forbidden")
	if p := ann.Do("DELETE", apitest.WorkspacePath(w)+"?now=yes", nil).Problem(t, 400, "invalid-field"); p["field"] != "now" {
		t.Errorf("got %v", p)
	}
	ann.Do("DELETE", apitest.WorkspacePath(w)+"?now=false", nil)
	for range 2 { // even one that is already deleted
		if a := admin.Do("DELETE", apitest.WorkspacePath(w)+"?now=true", nil); a.StatusCode != 202 {
			t.Errorf("status %d: %s", a.StatusCode, a.Text)
		}
	}
	got := admin.Do("GET", apitest.WorkspacePath(w), nil).Object(t)
	if got["deleted_at"] == nil || got["undelete_until"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestWorkspaceSaysWhatItWaitsFor(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	in.exec(`UPDATE workspaces SET waiting = '{"reason": "StoreAway", "message": "dial tcp 10.0.0.5:9000: connection refused", "since": "2026-11-21T10:00:00Z"}' WHERE id = $1`, w["id"])
	for client, message := range map[*apitest.Client]string{ann: "It waits for the object store, which does not answer.", in.signedIn("admin"): "dial tcp 10.0.0.5:9000: connection refused"} {
		got := client.Do("GET", apitest.WorkspacePath(w), nil).Object(t)["waiting"].(map[string]any)
		help := got["help"].(map[string]any)
		delete(got, "help")
		if fmt.Sprint(got) != "map[message:"+message+" reason:StoreAway since:2026-11-21T10:00:00Z]" || help["en"] == "" || strings.Contains(fmt.Sprint(help), "10.0.0.5") {
			t.Errorf("got %v, help %v", got, help)
		}
	}
}

func TestHistoryAndExplanationAreTheOwners(t *testing.T) {
	in := newHarness(t)
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	w := ann.Create("one")
	for _, what := range []string{"/explain", "/history"} {
		bob.Do("GET", apitest.WorkspacePath(w)+what, nil).Problem(t, 404, "not-found")
		if a := admin.Do("GET", apitest.WorkspacePath(w)+what, nil); a.StatusCode != 200 {
			t.Errorf("%s: status %d: %s", what, a.StatusCode, a.Text)
		}
	}
	ann.Do("PATCH", apitest.WorkspacePath(w), map[string]any{"desired_state": "STANDBY"})
	page := ann.Do("GET", apitest.WorkspacePath(w)+"/history?limit=1", nil).Object(t)
	items := page["items"].([]any)
	if len(items) != 1 || page["next_before"] == nil {
		t.Fatalf("got %v", page)
	}
	newest := items[0].(map[string]any)
	for field, want := range map[string]any{"kind": "desired_state", "old_value": "RUNNING", "new_value": "STANDBY", "cause": "api", "username": "ann", "message": nil} {
		if newest[field] != want {
			t.Errorf("%s: got %v, want %v", field, newest[field], want)
		}
	}
	if newest["user_id"] != w["owner_user_id"] {
		t.Errorf("user_id: got %v", newest["user_id"])
	}
	page = ann.Do("GET", fmt.Sprintf("%s/history?before=%.0f", apitest.WorkspacePath(w), page["next_before"]), nil).Object(t)
	if items := page["items"].([]any); len(items) != 1 || items[0].(map[string]any)["kind"] != "created" || page["next_before"] != nil {
		t.Errorf("got %v", page)
	}
	for _, query := range []string{"limit=0", "limit=many", "before=-1"} {
		p := ann.Do("GET", apitest.WorkspacePath(w)+"/history?"+query, nil).Problem(t, 400, "invalid-field")
		if field, _, _ := strings.Cut(query, "="); p["field"] != field {
			t.Errorf("%s: the field is %v", query, p["field"])
		}
	}
}

// Administrators see in the browser which workspaces of others they can recover (SPEC 12.9).
func TestTheListOfAllThatFailedIsForAdministrators(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	const path = "/api/v1/workspaces?all=true&phase=ERROR"
	first, second := ann.Create("first"), admin.Create("second")
	ann.Create("fine")
	in.fail(first, workspace.ReasonDataLost)
	in.fail(second, workspace.ReasonRetryExceeded)

	ann.Do("GET", path, nil).Problem(t, 403, "forbidden")
	var names, owners []string
	next := ""
	for range 2 {
		page := admin.Do("GET", path+"&limit=1&cursor="+next, nil).Object(t)
		for _, item := range page["items"].([]any) {
			w := item.(map[string]any)
			names, owners = append(names, w["name"].(string)), append(owners, w["owner_username"].(string))
		}
		next, _ = page["next_cursor"].(string)
	}
	if fmt.Sprint(names, owners) != "[second first] [admin ann]" || next != "" {
		t.Errorf("got %v of %v, and then %q", names, owners, next)
	}
	if a := admin.Do("POST", apitest.WorkspacePath(second)+"/recover", nil); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	if items := admin.Do("GET", path, nil).Object(t)["items"].([]any); len(items) != 1 || items[0].(map[string]any)["error_reason"] != "DataLost" {
		t.Errorf("one is recovered, and there are %v", items)
	}
	for query, want := range map[string]string{
		"all=true": "[second first fine]", "phase=ERROR": "[]", "all=true&phase=ERROR": "[first]", "all=true&owner=ANN": "[fine first]",
		"all=true&phase=PENDING,ERROR&sort=name": "[fine first]", "q=SEC": "[second]", "all=true&q=i&sort=-name": "[first fine]",
	} {
		var names []string
		for _, item := range admin.Do("GET", "/api/v1/workspaces?"+query, nil).Object(t)["items"].([]any) {
			names = append(names, item.(map[string]any)["name"].(string))
		}
		if query != "all=true" && fmt.Sprint(names) != want {
			t.Errorf("%s lists %v, want %s", query, names, want)
		}
		if query == "all=true" && len(names) != 3 {
			t.Errorf("%s lists %v", query, names)
		}
	}
	cursor := admin.Do("GET", "/api/v1/workspaces?all=true&limit=1", nil).Object(t)["next_cursor"].(string)
	for query, field := range map[string]string{
		"all=1": "all", "owner=ann": "owner", "phase=ASLEEP": "phase", "phase=RUNNING,deleted": "phase", "sort=size": "sort",
		"sort=--name": "sort", "sort=deleted_at": "sort", "q=" + strings.Repeat("x", 201): "q", "q=%00": "q", "q=%ff": "q",
		"all=true&sort=name&limit=1&cursor=" + cursor: "cursor", "limit=1&cursor=" + cursor: "cursor",
	} {
		if p := admin.Do("GET", "/api/v1/workspaces?"+query, nil).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%s: the field is %v", query, p["field"])
		}
	}
	for _, query := range []string{"all=true", "all=true&owner=ann", "all=true&deleted=true"} {
		ann.Do("GET", "/api/v1/workspaces?"+query, nil).Problem(t, 403, "forbidden")
	}
}
