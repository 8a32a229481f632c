package api_test

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestEveryRouteThatChangesSomethingIsInTheAudit sends a request to every route that may change something. The order is
// such that every request succeeds. After each request it checks the new entries of the audit (SPEC 13). A new route
// needs a new row.
func TestEveryRouteThatChangesSomethingIsInTheAudit(t *testing.T) {
	in := newHarness(t,
		withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) { return 0, nil }),
		func(o *api.Options) {
			a := o.Administration.(administration)
			a.collect = func(context.Context, bool, func(gc.Judgement) error) (gc.Report, error) { return gc.Report{}, nil }
			o.Administration = a
		})
	type object = map[string]any
	ann, admin, leaving := in.signedIn("ann"), in.signedIn("admin"), in.anyone()
	w := ann.Create("notes")
	key := workspace.ID(fmt.Sprint(w["id"])).ArchiveKey("00000000-0000-4000-9000-000000000001")
	set := func(columns string) func() {
		return func() { in.exec(`UPDATE workspaces SET operation = 'NONE', `+columns+` WHERE id = $1`, w["id"]) }
	}
	idOf := func(username string) (id string) {
		if err := in.db.QueryRow(t.Context(), `SELECT id::text FROM users WHERE username = $1`, username).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	var other string // a session or token of ann's
	newest := func(kind string) func() {
		return func() {
			another := in.anyone()
			another.SignIn("ann", testPassword)
			if kind == "tokens" {
				other = fmt.Sprint(token(ann, "read")["id"])
				return
			}
			for _, s := range ann.Do("GET", "/api/v1/sessions", nil).Object(t)["items"].([]any) {
				if s := s.(object); s["current"] != true {
					other = fmt.Sprint(s["id"])
				}
			}
		}
	}
	rows := []struct {
		route  string
		by     *apitest.Client
		before func()
		body   any
		want   string // the actions, in their order
	}{
		{"POST /api/v1/auth/login", in.anyone(), nil, object{"username": "ann", "password": testPassword}, "user.sign_in"},
		{"POST /api/v1/workspaces", ann, nil, object{"name": "more"}, "workspace.create"},
		{"PATCH /api/v1/workspaces/{id}", ann, nil, object{"name": "plans"}, "workspace.edit"},
		{"PATCH /api/v1/workspaces/{id}", ann, nil, object{"desired_state": "STANDBY"}, "workspace.sleep"},
		{"PATCH /api/v1/workspaces/{id}", ann, nil, object{"desired_state": "RUNNING"}, "workspace.start"},
		{"PATCH /api/v1/workspaces/{id}", ann, nil, object{"desired_state": "ARCHIVED"}, "workspace.archive"},
		{"PATCH /api/v1/workspaces/{id}", ann, nil, object{"desired_state": "RUNNING"}, "workspace.start"},
		{"POST /api/v1/workspaces/{id}/sleep", ann, nil, nil, "workspace.sleep"},
		{"POST /api/v1/workspaces/{id}/start", ann, nil, nil, "workspace.start"},
		{"POST /api/v1/workspaces/{id}/keep-awake", ann, nil, object{"hours": 2}, "workspace.keep_awake"},
		{"POST /api/v1/workspaces/{id}/exec", ann, nil, object{"command": []string{"ls"}}, "workspace.exec"},
		{"POST /api/v1/workspaces/{id}/archive", ann, nil, nil, "workspace.archive"},
		{"POST /api/v1/workspaces/{id}/archives/restore", ann, func() {
			in.inventory.Archives = []workspace.ArchiveVersion{{Key: key, Size: 7}}
			set(`phase = 'STANDBY', desired_state = 'STANDBY'`)()
		}, object{"archive": key}, "workspace.restore"},
		{"POST /api/v1/workspaces/{id}/recover", admin, set(`phase = 'ERROR', error_reason = 'RetryExceeded', revert = NULL`), nil, "workspace.recover"},
		{"POST /api/v1/workspaces/recover", admin, set(`phase = 'ERROR', error_reason = 'RetryExceeded'`), object{"reason": "RetryExceeded"}, "workspace.recover"},
		{"DELETE /api/v1/workspaces/{id}", ann, set(`phase = 'STANDBY'`), nil, "workspace.delete"},
		{"POST /api/v1/workspaces/{id}/undelete", ann, nil, nil, "workspace.undelete"},

		{"POST /api/v1/tokens", ann, nil, object{"name": "deploy", "scopes": []string{"read"}}, "token.create"},
		{"DELETE /api/v1/tokens/{id}", ann, newest("tokens"), nil, "token.revoke"},
		{"DELETE /api/v1/sessions/{id}", ann, newest("sessions"), nil, "user.sign_out"},
		{"DELETE /api/v1/sessions", ann, newest("sessions"), nil, "user.sign_out"},
		{"POST /api/v1/me/password", ann, nil, object{"present": testPassword, "password": testPassword + "!"}, "user.password user.sign_in"},
		{"POST /api/v1/auth/logout", leaving, func() { leaving.SignIn("ann", testPassword+"!") }, nil, "user.sign_out"},

		{"POST /api/v1/users", admin, nil, object{"username": "bob", "password": testPassword}, "user.create"},
		{"PATCH /api/v1/users/{id}", admin, func() { other = idOf("bob") }, object{
			"role": "admin", "disabled": true, "password": testPassword + "?", "limits": object{"max_running": 1},
		}, "user.password user.role user.disable user.limits"},
		{"PATCH /api/v1/users/{id}", admin, nil, object{"disabled": false}, "user.enable"},
		{"POST /api/v1/users/{id}/sign-out", admin, nil, nil, "user.sign_out"},
		{"POST /api/v1/users/{id}/unlock", admin, nil, nil, ""},
		{"POST /api/v1/users/{id}/unlock", admin, func() {
			in.anyone().Do("POST", "/api/v1/auth/login", object{"username": "bob", "password": "wrong"}).Problem(t, 401, "bad-credentials")
		}, nil, "user.unlock"},
		{"POST /api/v1/admin/gc", admin, nil, object{"dry_run": false}, "system.gc"},
		{"POST /api/v1/admin/gc", admin, nil, object{"dry_run": true}, ""},
		{"POST /api/v1/admin/scrub", admin, nil, object{"dry_run": false}, "system.scrub"},
		{"POST /api/v1/admin/scrub", admin, nil, object{"dry_run": true}, ""},
	}
	changes := make(map[string][]string) // the actions in the table of the routes that were not seen
	for _, route := range api.Routes() {
		if !strings.HasPrefix(route.Pattern, "GET ") {
			changes[route.Pattern] = nil
			if len(route.Audit) == 0 {
				t.Errorf("%s changes something, and the table of the routes names no action of the audit", route.Pattern)
			}
			for _, action := range route.Audit {
				changes[route.Pattern] = append(changes[route.Pattern], string(action))
			}
		}
	}
	named := maps.Clone(changes)
	for _, row := range rows {
		if _, known := changes[row.route]; !known {
			t.Errorf("there is no route %s", row.route)
		}
		for action := range strings.FieldsSeq(row.want) {
			if !slices.Contains(named[row.route], action) {
				t.Errorf("%s: the table of the routes does not name %s", row.route, action)
			}
			changes[row.route] = slices.DeleteFunc(slices.Clone(changes[row.route]), func(a string) bool { return a == action })
		}
		if row.before != nil {
			row.before()
		}
		var last int64
		if err := in.db.QueryRow(t.Context(), `SELECT max(id) FROM audit_log`).Scan(&last); err != nil {
			t.Fatal(err)
		}
		method, path, _ := strings.Cut(row.route, " ")
		path = strings.ReplaceAll(strings.ReplaceAll(path, "/workspaces/{id}", "/workspaces/"+fmt.Sprint(w["id"])), "{id}", other)
		if a := row.by.Do(method, path, row.body); a.StatusCode >= 300 {
			t.Fatalf("%s: status %d: %s", row.route, a.StatusCode, a.Text)
		}
		var got string
		if err := in.db.QueryRow(t.Context(), `SELECT COALESCE(string_agg(action, ' ' ORDER BY id), '') FROM audit_log
			WHERE id > $1 AND outcome = 'done'`, last).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != row.want {
			t.Errorf("%s %v: the audit has %q, want %q", row.route, row.body, got, row.want)
		}
	}
	for route, unseen := range changes {
		if len(unseen) > 0 {
			t.Errorf("%s has no row that shows %v", route, unseen)
		}
	}
}
