package api_test

import (
	"fmt"
	"testing"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

func TestUsersAreForAdministrators(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	id := admin.Do("GET", "/api/v1/users?q=ann", nil).Object(t)["items"].([]any)[0].(map[string]any)["id"].(string)
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{"GET", "/api/v1/users", nil}, {"POST", "/api/v1/users", map[string]any{"username": "eve", "password": testPassword}},
		{"GET", "/api/v1/users/" + id, nil}, {"PATCH", "/api/v1/users/" + id, map[string]any{"role": "admin"}},
		{"POST", "/api/v1/users/" + id + "/sign-out", nil},
	} {
		ann.Do(c.method, c.path, c.body).Problem(t, 403, "forbidden")
	}
	if u := admin.Do("GET", "/api/v1/users/"+id, nil).Object(t); u["role"] != "user" {
		t.Errorf("ann is %v", u)
	}
}

func TestAdministratorsAddAndListUsers(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	add := func(body map[string]any) map[string]any {
		t.Helper()
		a := admin.Do("POST", "/api/v1/users", body)
		u := a.Object(t)
		if a.StatusCode != 201 || a.Header.Get("Location") != "/api/v1/users/"+fmt.Sprint(u["id"]) {
			t.Fatalf("status %d, Location %q: %s", a.StatusCode, a.Header.Get("Location"), a.Text)
		}
		return u
	}
	bob := add(map[string]any{"username": "Bob", "password": testPassword})
	if bob["role"] != "user" || bob["disabled"] != false || bob["has_password"] != true || bob["last_sign_in_at"] != nil ||
		fmt.Sprint(bob["limits"]) != "map[max_running:<nil> max_workspaces:<nil>]" {
		t.Errorf("the new user is %v", bob)
	}
	add(map[string]any{"username": "carol", "password": testPassword, "role": "admin"})
	add(map[string]any{"username": "100%_", "password": testPassword})
	for field, body := range map[string]map[string]any{
		"password": {"username": "eve", "password": "short"}, "role": {"username": "eve", "password": testPassword, "role": "root"},
		"username": {"username": "two words", "password": testPassword}, "name": {"username": "eve", "password": testPassword, "name": "x"},
	} {
		if p := admin.Do("POST", "/api/v1/users", body).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%v: %v", body, p)
		}
	}
	admin.Do("POST", "/api/v1/users", map[string]any{"username": "BOB", "password": testPassword}).Problem(t, 409, "user-exists")

	client := in.anyone()
	client.SignIn("bob", testPassword)
	client.Create("one")
	names := func(query string) (all []string) {
		t.Helper()
		for cursor := ""; ; {
			page := admin.Do("GET", "/api/v1/users?limit=2&cursor="+cursor+query, nil).Object(t)
			for _, item := range page["items"].([]any) {
				u := item.(map[string]any)
				all = append(all, fmt.Sprintf("%v %v%v%v", u["username"], u["workspaces"], u["running"], u["last_sign_in_at"] != nil))
			}
			next, _ := page["next_cursor"].(string)
			if next == "" {
				return all
			}
			cursor = next
		}
	}
	if got := fmt.Sprint(names("")); got != "[100%_ 00false admin 00true Bob 11true carol 00false]" {
		t.Errorf("the users are %s", got)
	}
	for query, want := range map[string]string{"&q=O": "[Bob 11true carol 00false]", "&q=%25": "[100%_ 00false]", "&q=nobody": "[]"} {
		if got := fmt.Sprint(names(query)); got != want {
			t.Errorf("%s lists %s, want %s", query, got, want)
		}
	}
	for query, field := range map[string]string{"limit=501": "limit", "limit=-1": "limit", "cursor=!": "cursor", "cursor=AA": "cursor", "q=%00": "q", "q=%ff": "q"} {
		if p := admin.Do("GET", "/api/v1/users?"+query, nil).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%s: %v", query, p)
		}
	}
}

func TestAdministratorsChangeUsers(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	path := "/api/v1/users/" + ann.Do("GET", "/api/v1/me", nil).Object(t)["user_id"].(string)
	change := func(body map[string]any) map[string]any {
		t.Helper()
		a := admin.Do("PATCH", path, body)
		if a.StatusCode != 200 {
			t.Fatalf("%v: status %d: %s", body, a.StatusCode, a.Text)
		}
		return a.Object(t)
	}
	token := ann.Do("POST", "/api/v1/tokens", map[string]any{"name": "t", "scopes": []string{"read"}}).Object(t)["token"].(string)
	withToken := func() int {
		return in.anyone().Do("GET", "/api/v1/me", nil, "Authorization: Bearer "+token).StatusCode
	}
	// Changing limits, or setting the same role, ends no session.
	change(map[string]any{"role": "user", "limits": map[string]any{"max_running": 1}})
	if a := ann.Do("GET", "/api/v1/limits", nil); a.StatusCode != 200 || a.Object(t)["max_running_per_user"] != 1.0 {
		t.Errorf("ann's limits: %d %s", a.StatusCode, a.Text)
	}
	if withToken() != 200 {
		t.Error("the token is refused")
	}
	first := ann.Create("first")
	if p := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "second"}).Problem(t, 429, "limit-reached"); p["limit"] != 1.0 {
		t.Errorf("over the own limit: %v", p)
	}
	second := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "second", "desired_state": "ARCHIVED"}).Object(t)
	change(map[string]any{"limits": map[string]any{"max_workspaces": 2}})
	if p := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "third", "desired_state": "ARCHIVED"}).Problem(t, 429, "too-many-workspaces"); p["limit"] != 2.0 {
		t.Errorf("too many: %v", p)
	}
	// A workspace of ann's that an administrator starts counts against ann's limit.
	in.exec(`UPDATE workspaces SET operation = 'NONE', phase = 'ARCHIVED' WHERE id = $1`, second["id"])
	if p := admin.Do("POST", "/api/v1/workspaces/"+fmt.Sprint(second["id"])+"/start", nil).Problem(t, 429, "limit-reached"); p["limit"] != 1.0 {
		t.Errorf("for ann, over ann's limit: %v", p)
	}
	if u := change(map[string]any{"limits": map[string]any{"max_running": nil}}); fmt.Sprint(u["limits"]) != "map[max_running:<nil> max_workspaces:2]" {
		t.Errorf("without a limit of her own: %v", u)
	}
	if a := admin.Do("POST", "/api/v1/workspaces/"+fmt.Sprint(second["id"])+"/start", nil); a.StatusCode != 200 {
		t.Errorf("with the limit of all: %d %s", a.StatusCode, a.Text)
	}
	if a := ann.Do("GET", "/api/v1/workspaces/"+fmt.Sprint(first["id"]), nil); a.Object(t)["desired_state"] != "RUNNING" {
		t.Errorf("what ran: %s", a.Text)
	}
	for field, body := range map[string]map[string]any{
		"limits.max_running": {"limits": map[string]any{"max_running": 0}}, "limits.max_workspaces": {"limits": map[string]any{"max_workspaces": 1_000_001}},
		"role": {"role": "root"}, "password": {"password": "short"}, "username": {"username": "other"},
	} {
		if p := admin.Do("PATCH", path, body).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%v: %v", body, p)
		}
	}
	// All or nothing: with a bad password the limit is not changed either.
	admin.Do("PATCH", path, map[string]any{"limits": map[string]any{"max_running": 9}, "password": "short"}).Problem(t, 400, "invalid-field")
	if u := admin.Do("GET", path, nil).Object(t); fmt.Sprint(u["limits"]) != "map[max_running:<nil> max_workspaces:2]" {
		t.Errorf("after a refused change: %v", u)
	}

	change(map[string]any{"role": "admin"})
	ann.Do("GET", "/api/v1/me", nil).Problem(t, 401, "not-signed-in")
	if withToken() != 401 {
		t.Error("another role, and the token is good")
	}
	ann.SignIn("ann", testPassword)
	if a := admin.Do("POST", path+"/sign-out", nil); a.StatusCode != 204 {
		t.Errorf("sign-out: %d %s", a.StatusCode, a.Text)
	}
	ann.Do("GET", "/api/v1/me", nil).Problem(t, 401, "not-signed-in")
	change(map[string]any{"password": "another password"})
	ann.Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": testPassword}).Problem(t, 401, "bad-credentials")
	ann.SignIn("ann", "another password")
	if u := change(map[string]any{"disabled": true}); u["disabled"] != true {
		t.Errorf("disabled: %v", u)
	}
	ann.Do("GET", "/api/v1/me", nil).Problem(t, 401, "not-signed-in")
	ann.Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": "another password"}).Problem(t, 401, "bad-credentials")
	change(map[string]any{"disabled": false})
	ann.SignIn("ann", "another password")

	own := "/api/v1/users/" + admin.Do("GET", "/api/v1/me", nil).Object(t)["user_id"].(string)
	for _, body := range []map[string]any{{"disabled": true}, {"role": "user"}} {
		admin.Do("PATCH", own, body).Problem(t, 409, "own-account")
	}
	// Another administrator has just demoted this administrator, but this process still has the old role in memory with
	// the session.
	change(map[string]any{"role": "admin"})
	in.exec(`UPDATE users SET role = 'user' WHERE username = 'admin'`)
	for _, body := range []map[string]any{{"disabled": true}, {"role": "user"}} {
		admin.Do("PATCH", path, body).Problem(t, 409, "last-administrator")
	}
	in.exec(`UPDATE users SET role = 'admin' WHERE username = 'admin'`)
	if a := admin.Do("PATCH", own, map[string]any{"disabled": false, "role": auth.RoleAdmin}); a.StatusCode != 200 {
		t.Errorf("the own account as it is: %d %s", a.StatusCode, a.Text)
	}
	for _, id := range []string{"x", "00000000-0000-4000-8000-000000000000", "%00", "%ff"} {
		admin.Do("PATCH", "/api/v1/users/"+id, map[string]any{"disabled": true}).Problem(t, 404, "not-found")
		admin.Do("POST", "/api/v1/users/"+id+"/sign-out", nil).Problem(t, 404, "not-found")
		admin.Do("GET", "/api/v1/users/"+id, nil).Problem(t, 404, "not-found")
	}
}
