package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// auditLine is the part of an entry that the tests compare.
func auditLine(e map[string]any) string {
	actor := e["actor"].(map[string]any)
	line := fmt.Sprint(e["action"], " ", e["outcome"], " by ", actor["kind"])
	for _, field := range []string{"name", "through", "token_name", "address"} {
		if v := actor[field]; v != nil {
			line += fmt.Sprint(" ", field, "=", v)
		}
	}
	if w, ok := e["workspace"].(map[string]any); ok {
		line += fmt.Sprint(" on ", w["name"])
	}
	if u, ok := e["user"].(map[string]any); ok {
		line += fmt.Sprint(" of ", u["username"])
	}
	if d := e["details"].(map[string]any); len(d) > 0 {
		text, _ := json.Marshal(d)
		line += " " + string(text)
	}
	return line
}

// audited returns the entries that an administrator sees, oldest first.
func audited(t *testing.T, admin *apitest.Client, query string) (lines []string) {
	t.Helper()
	page := admin.Do("GET", "/api/v1/admin/audit"+query, nil).Object(t)
	for _, item := range page["items"].([]any) {
		lines = append([]string{auditLine(item.(map[string]any))}, lines...)
	}
	return lines
}

func TestTheAuditSaysWhoFromWhereAndThroughWhat(t *testing.T) {
	in := newHarness(t, withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		return 0, nil
	}))
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	in.exec(`DELETE FROM audit_log`)
	w := ann.Create("notes")
	path := apitest.WorkspacePath(w)
	deploy := token(ann, "write")
	if a := in.anyone().Do("POST", path+"/sleep", nil, bearer(deploy)); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	if a := ann.Do("PATCH", path, map[string]any{"name": "plans", "memo": "hunter2"}); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	run(ann, w, "/usr/bin/env", "TOKEN=hunter2", "sh")
	run(ann, w, "TOKEN=hunter2")
	in.anyone().Do("POST", path+"/recover", map[string]any{"choice": map[string]any{"kind": "empty"}}, bearer(deploy)).
		Problem(t, 403, "token-scope")
	ann.Do("GET", "/api/v1/admin/audit", nil).Problem(t, 403, "forbidden")
	for _, name := range []string{"ann", "hunter2"} {
		in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": name, "password": "wrong"}).
			Problem(t, 401, "bad-credentials")
	}
	ann.Do("POST", "/api/v1/auth/logout", nil)
	want := `workspace.create done by user name=ann through=page address=127.0.0.1 on notes of ann {"desired_state":"RUNNING"}
token.create done by user name=ann through=page address=127.0.0.1 of ann
workspace.sleep done by user name=ann through=token token_name=NAME address=127.0.0.1 on notes of ann
workspace.edit done by user name=ann through=page address=127.0.0.1 on notes of ann {"fields":["name","memo"]}
workspace.exec done by user name=ann through=page address=127.0.0.1 on plans of ann {"program":"env"}
workspace.exec done by user name=ann through=page address=127.0.0.1 on plans of ann {"program":""}
api.request token-scope by user name=ann through=token token_name=NAME address=127.0.0.1 of ann {"request":"POST /api/v1/workspaces/{id}/recover"}
api.request forbidden by user name=ann through=page address=127.0.0.1 of ann {"request":"GET /api/v1/admin/audit"}
user.sign_in bad-credentials by anonymous address=127.0.0.1 of ann
user.sign_in bad-credentials by anonymous address=127.0.0.1
user.sign_out done by user name=ann address=127.0.0.1 of ann`
	got := strings.Join(audited(t, admin, ""), "\n")
	got = strings.ReplaceAll(got, "token_name="+deploy["name"].(string), "token_name=NAME")
	lines := strings.Split(got, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "token.create") {
			lines[i], _, _ = strings.Cut(l, " {")
		}
	}
	if got = strings.Join(lines, "\n"); got != want {
		t.Errorf("the audit is\n%s\nwant\n%s", got, want)
	}
	if text := admin.Do("GET", "/api/v1/admin/audit", nil).Text; strings.Contains(string(text), "hunter2") ||
		strings.Contains(string(text), deploy["token"].(string)) {
		t.Error("the audit holds a secret")
	}
}

func TestReadingTheAudit(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	in.exec(`DELETE FROM audit_log`)
	w := ann.Create("notes")
	admin.Create("other")
	in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": "wrong"})
	for query, want := range map[string]int{
		"": 3, "?user=ann": 2, "?user=ANN&action=workspace": 1, "?action=workspace": 2, "?action=user.sign_in": 1,
		"?workspace=" + w["id"].(string): 1, "?since=2020-01-01T00:00:00Z": 3, "?until=2020-01-01T00:00:00%2B09:00": 0,
		"?limit=1": 1,
	} {
		if got := audited(t, admin, query); len(got) != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	for query, field := range map[string]string{
		"action=work": "action", "since=yesterday": "since", "until=1": "until", "workspace=x": "workspace",
		"format=csv": "format", "cursor=x": "cursor", "limit=0": "limit", "user=%00": "user",
	} {
		if p := admin.Do("GET", "/api/v1/admin/audit?"+query, nil).Problem(t, 400, "invalid-field"); p["field"] != field {
			t.Errorf("%s: %v", query, p)
		}
	}
	// Pages and lines have the same entries.
	var paged []string
	for cursor := ""; ; {
		page := admin.Do("GET", "/api/v1/admin/audit?limit=1"+cursor, nil).Object(t)
		for _, item := range page["items"].([]any) {
			paged = append(paged, auditLine(item.(map[string]any)))
		}
		if page["next_cursor"] == nil {
			break
		}
		cursor = "&cursor=" + page["next_cursor"].(string)
	}
	for name, reply := range map[string]apitest.Reply{
		"format": admin.Do("GET", "/api/v1/admin/audit?format=jsonl", nil),
		"Accept": admin.Do("GET", "/api/v1/admin/audit", nil, "Accept: application/x-ndjson"),
	} {
		var streamed []string
		for line := range strings.Lines(string(reply.Text)) {
			var e map[string]any
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %q: %v", name, line, err)
			}
			streamed = append(streamed, auditLine(e))
		}
		if kind := reply.Header.Get("Content-Type"); kind != "application/x-ndjson" || len(paged) != 3 ||
			fmt.Sprint(streamed) != fmt.Sprint(paged) {
			t.Errorf("%s: %s: %v, in pages %v", name, kind, streamed, paged)
		}
	}
}

// TestTheWholeAuditIsStreamed: the answer can have more entries than are held in memory. If not all of them can be
// read, the answer is broken off.
func TestTheWholeAuditIsStreamed(t *testing.T) {
	in := newHarness(t)
	admin := in.signedIn("admin")
	in.exec(`INSERT INTO audit_log (action, actor, details) SELECT 'system.gc', '{"kind": "system"}',
		jsonb_build_object('n', repeat('x', 100)) FROM generate_series(1, 3000)`)
	const all = "/api/v1/admin/audit?format=jsonl&action=system.gc"
	if n := strings.Count(string(admin.Do("GET", all, nil).Text), "\n"); n != 3000 {
		t.Errorf("%d lines", n)
	}
	in.exec(`ALTER TABLE audit_log DROP CONSTRAINT audit_log_details_check`)
	in.exec(`UPDATE audit_log SET details = '"no object"' WHERE id = (SELECT min(id) FROM audit_log WHERE action = 'system.gc')`)
	answer := admin.Open(t.Context(), "GET", all, nil)
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err == nil {
		t.Errorf("an answer of which the end is missing looks whole: %d bytes", len(text))
	}
}

func TestUsersReadTheAuditOfTheirAccount(t *testing.T) {
	in := newHarness(t)
	ann, admin := in.signedIn("ann"), in.signedIn("admin")
	ann.Create("notes")
	token(ann, "read")
	id := ann.Do("GET", "/api/v1/me/audit", nil).Object(t)["items"].([]any)[0].(map[string]any)["user"].(map[string]any)["id"].(string)
	if a := admin.Do("PATCH", "/api/v1/users/"+id, map[string]any{"limits": map[string]any{"max_running": 3}}); a.StatusCode != 200 {
		t.Fatal(a.StatusCode, string(a.Text))
	}
	page := ann.Do("GET", "/api/v1/me/audit", nil).Object(t)
	var got []string
	for _, item := range page["items"].([]any) {
		e := item.(map[string]any)
		actor := e["actor"].(map[string]any)
		got = append(got, fmt.Sprint(e["action"], " ", e["user"].(map[string]any)["username"], " ", actor["address"] != nil || actor["request"] != nil))
	}
	if want := "[user.limits ann false token.create ann true user.sign_in ann true user.create ann false]"; fmt.Sprint(got) != want {
		t.Errorf("ann's is %v, want %s", got, want)
	}
	if text := admin.Do("GET", "/api/v1/me/audit", nil).Text; strings.Contains(string(text), "ann") {
		t.Errorf("the administrator's own is %s", text)
	}
}
