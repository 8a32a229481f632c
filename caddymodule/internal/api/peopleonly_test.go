package api_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestNoTokenDecidesWhoSignsIn sends every request that may change something, with an administrator's token that has
// all scopes (SPEC 11). The requests that would decide who can sign in are refused, change nothing, and appear in the
// audit. All other requests are allowed. A new route needs a new row.
func TestNoTokenDecidesWhoSignsIn(t *testing.T) {
	in := newHarness(t,
		withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) { return 0, nil }),
		func(o *api.Options) {
			a := o.Administration.(administration)
			a.collect = func(context.Context, bool, func(gc.Judgement) error) (gc.Report, error) { return gc.Report{}, nil }
			o.Administration = a
		})
	type object = map[string]any
	admin, anyone := in.signedIn("admin"), in.anyone()
	in.signedIn("bob")
	in.exec(`INSERT INTO users (username, role, disabled_at) VALUES ('gone', 'admin', now())`)
	full, spare := token(admin, "read", "write", "workspace", "admin"), token(admin, "read")
	w := fmt.Sprint(admin.Create("notes")["id"])
	key := workspace.ID(w).ArchiveKey("00000000-0000-4000-9000-000000000001")
	in.inventory.Archives = []workspace.ArchiveVersion{{Key: key, Size: 7}}
	id := func(username string) (id string) {
		if err := in.db.QueryRow(t.Context(), `SELECT id::text FROM users WHERE username = $1`, username).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	own, bob, gone := id("admin"), id("bob"), id("gone")
	session := fmt.Sprint(admin.Do("GET", "/api/v1/sessions", nil).Object(t)["items"].([]any)[0].(object)["id"])
	set := func(columns string) func() {
		return func() { in.exec(`UPDATE workspaces SET operation = 'NONE', `+columns+` WHERE id = $1`, w) }
	}
	const refused, passes = 403, 200
	rows := []struct {
		route  string
		id     string
		body   any
		before func()
		want   int
	}{
		{"POST /api/v1/auth/login", "", object{"username": "bob", "password": testPassword}, nil, refused},
		{"POST /api/v1/auth/logout", "", nil, nil, refused},
		{"POST /api/v1/me/password", "", object{"present": testPassword, "password": testPassword + "!"}, nil, refused},
		{"DELETE /api/v1/sessions", "", nil, nil, refused},
		{"DELETE /api/v1/sessions/{id}", session, nil, nil, refused},
		{"POST /api/v1/tokens", "", object{"name": "more", "scopes": []string{"admin"}}, nil, refused},
		{"POST /api/v1/users", "", object{"username": "eve", "password": testPassword, "role": "admin"}, nil, refused},
		{"POST /api/v1/users", "", object{"username": "eve", "password": testPassword}, nil, refused},
		{"POST /api/v1/users", "", object{"username": "eve", "password": "short"}, nil, refused},
		{"PATCH /api/v1/users/{id}", own, object{"password": testPassword + "!"}, nil, refused},
		{"PATCH /api/v1/users/{id}", own, object{"role": "admin"}, nil, refused},
		{"PATCH /api/v1/users/{id}", own, object{"role": "user"}, nil, refused},
		{"PATCH /api/v1/users/{id}", own, object{"disabled": true}, nil, refused},
		{"PATCH /api/v1/users/{id}", bob, object{"password": testPassword + "!"}, nil, refused},
		{"PATCH /api/v1/users/{id}", bob, object{"password": "short"}, nil, refused},
		{"PATCH /api/v1/users/{id}", bob, object{"role": "admin"}, nil, refused},
		{"PATCH /api/v1/users/{id}", bob, object{"disabled": true}, nil, refused},
		{"PATCH /api/v1/users/{id}", bob, object{"disabled": true, "limits": object{"max_running": 1}}, nil, refused},
		{"PATCH /api/v1/users/{id}", gone, object{"disabled": false}, nil, refused},
		{"POST /api/v1/users/{id}/sign-out", bob, nil, nil, refused},
		{"POST /api/v1/users/{id}/sign-out", own, nil, nil, refused},
		{"POST /api/v1/users/{id}/unlock", bob, nil, nil, refused},
		{"POST /api/v1/users/{id}/unlock", own, nil, nil, refused},

		{"PATCH /api/v1/users/{id}", bob, object{"limits": object{"max_running": 1}}, nil, passes},
		{"PATCH /api/v1/users/{id}", bob, object{}, nil, passes},
		{"POST /api/v1/workspaces", "", object{"name": "more"}, nil, passes},
		{"PATCH /api/v1/workspaces/{id}", w, object{"name": "plans"}, nil, passes},
		{"POST /api/v1/workspaces/{id}/sleep", w, nil, nil, passes},
		{"POST /api/v1/workspaces/{id}/start", w, nil, nil, passes},
		{"POST /api/v1/workspaces/{id}/keep-awake", w, object{"hours": 2}, nil, passes},
		{"POST /api/v1/workspaces/{id}/exec", w, object{"command": []string{"ls"}}, nil, passes},
		{"POST /api/v1/workspaces/{id}/archive", w, nil, nil, passes},
		{"POST /api/v1/workspaces/{id}/archives/restore", w, object{"archive": key}, set(`phase = 'STANDBY', desired_state = 'STANDBY'`), passes},
		{"POST /api/v1/workspaces/{id}/recover", w, nil, set(`phase = 'ERROR', error_reason = 'RetryExceeded', revert = NULL`), passes},
		{"POST /api/v1/workspaces/recover", "", object{"reason": "RetryExceeded"}, nil, passes},
		{"DELETE /api/v1/workspaces/{id}", w, nil, set(`phase = 'STANDBY'`), passes},
		{"POST /api/v1/workspaces/{id}/undelete", w, nil, nil, passes},
		{"POST /api/v1/admin/gc", "", object{"dry_run": false}, nil, passes},
		{"POST /api/v1/admin/scrub", "", object{"dry_run": false}, nil, passes},
		{"DELETE /api/v1/tokens/{id}", fmt.Sprint(spare["id"]), nil, nil, passes},
	}
	// accounts returns all data that decides who can sign in, and how.
	accounts := func() (sum string) {
		if err := in.db.QueryRow(t.Context(), `SELECT md5(
			(SELECT string_agg(concat_ws(' ', id, username, password_hash, role, disabled_at), '' ORDER BY id) FROM users) ||
			(SELECT string_agg(id::text, '' ORDER BY id) FROM sessions) || (SELECT count(*) FROM tickets))`).Scan(&sum); err != nil {
			t.Fatal(err)
		}
		return sum
	}
	missing := map[string]bool{}
	for _, route := range api.Routes() {
		missing[route.Pattern] = true
	}
	for _, row := range rows {
		delete(missing, row.route)
		if row.before != nil {
			row.before()
		}
		method, path, _ := strings.Cut(row.route, " ")
		was := accounts()
		a := anyone.Do(method, strings.ReplaceAll(path, "{id}", row.id), row.body, bearer(full))
		if row.want == passes {
			if a.StatusCode >= 300 {
				t.Errorf("%s %v: status %d: %s", row.route, row.body, a.StatusCode, a.Text)
			}
			continue
		}
		a.Problem(t, 403, "token-scope")
		if accounts() != was {
			t.Errorf("%s %v: refused, and changed something", row.route, row.body)
		}
		var request, by, why string
		if err := in.db.QueryRow(t.Context(), `SELECT details ->> 'request', actor ->> 'token_id', outcome FROM audit_log
			WHERE action = 'api.request' ORDER BY id DESC LIMIT 1`).Scan(&request, &by, &why); err != nil {
			t.Fatal(row.route, err)
		}
		if request != row.route || by != full["id"] || why != "token-scope" {
			t.Errorf("%s: the audit has %s by token %s: %s", row.route, request, by, why)
		}
	}
	for route := range missing {
		if !slices.Contains([]string{"GET", "HEAD"}, strings.Fields(route)[0]) {
			t.Errorf("%s has no row: may a token do it?", route)
		}
	}
}
