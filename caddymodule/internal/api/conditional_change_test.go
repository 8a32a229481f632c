package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestIfMatchAppliesToEveryChange: a change whose If-Match names another revision of the workspace is refused with 412
// and changes nothing. It gets 412 even if it would otherwise be refused for another reason. With the current revision
// the change is made. A new route needs a new row.
func TestIfMatchAppliesToEveryChange(t *testing.T) {
	commands := 0
	in := newHarness(t, withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		commands++
		return 0, nil
	}))
	type object = map[string]any
	admin := in.signedIn("admin")
	w := fmt.Sprint(admin.Create("notes")["id"])
	path := "/api/v1/workspaces/" + w
	first := admin.Do("GET", path, nil).Header.Get("ETag")
	key := workspace.ID(w).ArchiveKey("00000000-0000-4000-9000-000000000001")
	in.inventory.Archives = []workspace.ArchiveVersion{{Key: key, Size: 7}}
	fingerprint := func() (sum string) {
		if err := in.db.QueryRow(t.Context(), `SELECT md5((SELECT w::text FROM workspaces w WHERE id = $1) ||
			(SELECT count(*) FROM workspace_history) || (SELECT count(*) FROM audit_log))`, w).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	const none = `operation = 'NONE', `
	for _, row := range []struct {
		route   string
		columns string // preconditions
		body    any
	}{
		{"PATCH /api/v1/workspaces/{id}", none + `phase = 'RUNNING'`, object{"name": "plans"}},
		{"PATCH /api/v1/workspaces/{id}", none + `phase = 'RUNNING'`, object{"desired_state": "STANDBY"}},
		{"PATCH /api/v1/workspaces/{id}", none + `phase = 'ERROR', error_reason = 'RetryExceeded'`, object{"image_ref": "registry.example/team/image:1.0"}},
		{"PATCH /api/v1/workspaces/{id}", `operation = 'STARTING', phase = 'STANDBY'`, object{"description": "busy"}},
		{"POST /api/v1/workspaces/{id}/start", none + `phase = 'STANDBY', desired_state = 'STANDBY'`, nil},
		{"POST /api/v1/workspaces/{id}/start", none + `phase = 'RUNNING', doze_at = now()`, nil},
		{"POST /api/v1/workspaces/{id}/keep-awake", none + `phase = 'RUNNING'`, object{"hours": 2}},
		{"POST /api/v1/workspaces/{id}/keep-awake", none + `phase = 'RUNNING', doze_at = now()`, object{"hours": 1}},
		{"POST /api/v1/workspaces/{id}/exec", none + `phase = 'RUNNING'`, object{"command": []string{"ls"}}},
		{"POST /api/v1/workspaces/{id}/exec", none + `phase = 'RUNNING', doze_at = now()`, object{"command": []string{"ls"}}},
		{"POST /api/v1/workspaces/{id}/sleep", none + `phase = 'RUNNING'`, nil},
		{"POST /api/v1/workspaces/{id}/archive", none + `phase = 'STANDBY'`, nil},
		{"POST /api/v1/workspaces/{id}/archives/restore", none + `phase = 'STANDBY', desired_state = 'STANDBY'`, object{"archive": key}},
		{"POST /api/v1/workspaces/{id}/recover", none + `phase = 'ERROR', error_reason = 'RetryExceeded', revert = NULL`, nil},
		{"POST /api/v1/workspaces/{id}/recover", none + `phase = 'STANDBY', error_reason = NULL`, nil},
		{"DELETE /api/v1/workspaces/{id}", none + `phase = 'STANDBY'`, nil},
		{"DELETE /api/v1/workspaces/{id}?now=true", none + `phase = 'STANDBY'`, nil},
		{"POST /api/v1/workspaces/{id}/undelete", none + `phase = 'STANDBY'`, nil},
		{"POST /api/v1/workspaces/{id}/undelete", none + `phase = 'STANDBY'`, nil},
	} {
		in.exec(`UPDATE workspaces SET `+row.columns+` WHERE id = $1`, w)
		was, ran := fingerprint(), commands
		method, at, _ := strings.Cut(row.route, " ")
		at = strings.ReplaceAll(at, "{id}", w)
		for _, match := range []string{first, "W/" + first, `"0"`, `"x"`, "1", "", `"`, first + `, "0"`, "W/*", `"*"`, `"99999999999999999999"`} {
			p := admin.Do(method, at, row.body, "If-Match: "+match)
			if p.StatusCode != http.StatusPreconditionFailed {
				t.Errorf("%s %v with If-Match %s: status %d: %s", row.route, row.body, match, p.StatusCode, p.Text)
			}
		}
		if fingerprint() != was || commands != ran {
			t.Errorf("%s %v: refused, and done", row.route, row.body)
		}
		var revision int64
		if err := in.db.QueryRow(t.Context(), `SELECT revision FROM workspaces WHERE id = $1`, w).Scan(&revision); err != nil {
			t.Fatal(err)
		}
		if a := admin.Do(method, at, row.body, fmt.Sprintf(`If-Match: %s, W/"1", "%d"`, first, revision)); a.StatusCode >= 300 {
			t.Errorf("%s %v with its revision: status %d: %s", row.route, row.body, a.StatusCode, a.Text)
		}
	}
}

// TestEveryRouteRespectsIfMatch: no route that changes something ignores the header If-Match. A request for an unknown
// workspace still gets 404. A change of anything other than a workspace is refused.
func TestEveryRouteRespectsIfMatch(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	path := apitest.WorkspacePath(admin.Create("notes"))
	in.exec(`UPDATE workspaces SET phase = 'RUNNING'`)
	var was string
	all := `SELECT md5((SELECT string_agg(w::text, '') FROM workspaces w) || (SELECT string_agg(concat(id, role, password_hash), '') FROM users) ||
		(SELECT string_agg(id::text, '') FROM sessions) || (SELECT count(*) FROM audit_log))`
	if err := in.db.QueryRow(t.Context(), all).Scan(&was); err != nil {
		t.Fatal(err)
	}
	bodies := map[string]any{
		"POST /api/v1/workspaces/{id}/exec":             map[string]any{"command": []string{"ls"}},
		"POST /api/v1/workspaces/{id}/keep-awake":       map[string]any{"hours": 1},
		"POST /api/v1/workspaces/{id}/archives/restore": map[string]any{"archive": "x"},
		"PATCH /api/v1/workspaces/{id}":                 map[string]any{"name": "x"},
	}
	for _, route := range api.Routes() {
		pattern := route.Pattern
		method, at, _ := strings.Cut(pattern, " ")
		if method == "GET" || strings.HasPrefix(at, "/api/v1/auth/") { // a sign-in has no state that a client could have read
			continue
		}
		want := "no-entity-tag"
		if strings.HasPrefix(at, "/api/v1/workspaces/{id}") {
			want = "changed-meanwhile"
			unknown := strings.ReplaceAll(at, "{id}", "00000000-0000-4000-8000-000000000000")
			admin.Do(method, unknown, bodies[pattern], `If-Match: "1"`).Problem(t, 404, "not-found")
		}
		at = strings.ReplaceAll(strings.ReplaceAll(at, "/api/v1/workspaces/{id}", path), "{id}", "unknown")
		admin.Do(method, at, bodies[pattern], `If-Match: "1"`).Problem(t, 412, want)
	}
	var now string
	if err := in.db.QueryRow(t.Context(), all).Scan(&now); err != nil || now != was {
		t.Errorf("something has changed, %v", err)
	}
}

// TestAKeyNeverLeadsToAnotherUsersWorkspace: a user creates a workspace with an idempotency key. The workspace's row is
// lost, and the workspace is adopted for another user (SPEC 12.9). A request with the same key does not lead to it.
func TestAKeyNeverLeadsToAnotherUsersWorkspace(t *testing.T) {
	var workspaces *service.Service
	in := newHarness(t, func(o *api.Options) { workspaces = o.Service.(*service.Service) })
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	create := func() apitest.Reply {
		return bob.Do("POST", "/api/v1/workspaces", map[string]any{"name": "mine"}, "Idempotency-Key: k-1")
	}
	made := create().Object(t)
	id := workspace.ID(fmt.Sprint(made["id"]))
	in.exec(`DELETE FROM workspaces`)
	in.inventory.Archives = []workspace.ArchiveVersion{{Key: id.ArchiveKey("00000000-0000-4000-9000-000000000001"), Size: 7}}
	if _, err := workspaces.Adopt(t.Context(), service.Actor{Admin: true, Through: "cli"}, id, "ann", "secret plans", ""); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		r := create()
		if r.Problem(t, 409, "key-taken"); strings.Contains(string(r.Text), "secret") || strings.Contains(string(r.Text), string(id)) || r.Header.Get("Location") != "" {
			t.Errorf("%s: %v %s", when, r.Header, r.Text)
		}
	}
	refused("adopted")
	// The answer stays the same when bob is at his limits, and it does not reveal that the workspace is deleted.
	in.exec(`UPDATE users SET max_workspaces = 1, max_running = 1 WHERE username = 'bob'`)
	bob.Create("another")
	refused("beside as many as there may be")
	if r := ann.Do("DELETE", "/api/v1/workspaces/"+string(id), nil); r.StatusCode != 202 {
		t.Fatalf("status %d: %s", r.StatusCode, r.Text)
	}
	refused("deleted")
	// If the workspace is adopted for bob himself, the key leads to it.
	in.exec(`UPDATE workspaces SET deleted_at = NULL, delete_now = false, desired_state = 'ARCHIVED',
		owner_user_id = (SELECT id FROM users WHERE username = 'bob') WHERE id = $1`, string(id))
	if r := create(); r.StatusCode != 201 || r.Object(t)["id"] != string(id) {
		t.Errorf("status %d: %s", r.StatusCode, r.Text)
	}
}
