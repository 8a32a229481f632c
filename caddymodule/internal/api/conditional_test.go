package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
)

func TestPostTakesWhatPatchTakes(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	for _, desired := range []string{"RUNNING", "STANDBY", "ARCHIVED"} {
		r := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": desired, "memo": "note", "desired_state": desired})
		if w := r.Object(t); r.StatusCode != http.StatusCreated || w["memo"] != "note" || w["desired_state"] != desired {
			t.Errorf("got status %d: %s", r.StatusCode, r.Text)
		}
	}
	for field, value := range map[string]any{"memo": "a\x00b", "desired_state": "DELETED"} {
		p := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "x", field: value}).Problem(t, 400, "invalid-field")
		if p["field"] != field {
			t.Errorf("%s: %v", field, p)
		}
	}
	// The limit counts running workspaces: one more may sleep.
	ann.Create("second")
	ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "third"}).Problem(t, 429, "limit-reached")
	if r := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "third", "desired_state": "STANDBY"}); r.StatusCode != http.StatusCreated {
		t.Errorf("got status %d: %s", r.StatusCode, r.Text)
	}
}

func TestOneKeyCreatesOneWorkspace(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	create := func(c *apitest.Client, key string) apitest.Reply {
		return c.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one"}, "Idempotency-Key: "+key)
	}
	ids := make([]any, 8)
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() {
			if r := create(ann, `"k-1"`); r.StatusCode == http.StatusCreated {
				w := r.Object(t)
				if ids[i] = w["id"]; r.Header.Get("Location") != apitest.WorkspacePath(w) {
					t.Errorf("Location is %q", r.Header.Get("Location"))
				}
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if id == nil || id != ids[0] {
			t.Fatalf("got %v", ids)
		}
	}
	if n := len(ann.Do("GET", "/api/v1/workspaces", nil).Object(t)["items"].([]any)); n != 1 {
		t.Errorf("there are %d workspaces", n)
	}
	// A repetition creates no workspace, so no limit refuses it.
	ann.Create("two")
	if w := create(ann, `"k-1"`).Object(t); w["id"] != ids[0] {
		t.Errorf("got %v", w)
	}
	create(ann, "k-2").Problem(t, 429, "limit-reached")
	if w := create(bob, `"k-1"`).Object(t); w["id"] == ids[0] || w["id"] == nil {
		t.Errorf("another user got %v", w)
	}
	if r := ann.Do("DELETE", "/api/v1/workspaces/"+ids[0].(string), nil); r.StatusCode != http.StatusAccepted {
		t.Fatalf("got status %d: %s", r.StatusCode, r.Text)
	}
	create(ann, `"k-1"`).Problem(t, 409, "deleted")
	for _, key := range []string{"", "two words", strings.Repeat("k", 256), "schlüssel"} {
		if p := create(ann, key).Problem(t, 400, "invalid-field"); p["field"] != "Idempotency-Key" {
			t.Errorf("%q: %v", key, p)
		}
	}
}

func TestAChangeOfWhatHasChangedIsRefused(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	r := ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one"})
	path, first := apitest.WorkspacePath(r.Object(t)), r.Header.Get("ETag")
	if got := ann.Do("GET", path, nil).Header.Get("ETag"); first == "" || got != first {
		t.Fatalf("created %q, read %q", first, got)
	}
	r = ann.Do("PATCH", path, map[string]any{"memo": "a"}, "If-Match: "+first)
	second := r.Header.Get("ETag")
	if r.StatusCode != http.StatusOK || second == first {
		t.Fatalf("got status %d, %q: %s", r.StatusCode, second, r.Text)
	}
	for _, c := range []struct {
		match string
		takes bool
	}{
		{first, false},
		{"W/" + second, false}, // weak tags never match
		{strings.Trim(second, `"`), false},
		{`"x"`, false},
		{"*", true},
	} {
		r := ann.Do("PATCH", path, map[string]any{"memo": "b"}, "If-Match: "+c.match)
		if !c.takes {
			r.Problem(t, 412, "changed-meanwhile")
		} else if r.StatusCode != http.StatusOK {
			t.Errorf("If-Match %s: status %d: %s", c.match, r.StatusCode, r.Text)
		} else {
			second = r.Header.Get("ETag")
		}
	}
	ann.Do("POST", path+"/sleep", nil, "If-Match: "+first).Problem(t, 412, "changed-meanwhile")
	w := ann.Do("GET", path, nil).Object(t)
	if w["memo"] != "b" || w["desired_state"] != "RUNNING" {
		t.Errorf("got %v", w)
	}
	if r := ann.Do("PATCH", path, map[string]any{"memo": "c"}, "If-Match: "+first+", "+second); r.StatusCode != http.StatusOK {
		t.Errorf("one of two tags: status %d: %s", r.StatusCode, r.Text)
	}
}

func TestPlainVerbs(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	path := apitest.WorkspacePath(ann.Create("one"))
	for _, c := range []struct{ verb, desired string }{
		{"sleep", "STANDBY"}, {"sleep", "STANDBY"}, {"archive", "ARCHIVED"}, {"start", "RUNNING"},
	} {
		r := ann.Do("POST", path+"/"+c.verb, nil)
		if w := r.Object(t); r.StatusCode != http.StatusOK || w["desired_state"] != c.desired {
			t.Errorf("%s: status %d: %s", c.verb, r.StatusCode, r.Text)
		}
		bob.Do("POST", path+"/"+c.verb, nil).Problem(t, 404, "not-found")
		if r := ann.Do("GET", path+"/"+c.verb, nil); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: status %d", c.verb, r.StatusCode)
		}
	}
	in.exec("UPDATE workspaces SET operation = 'STARTING', op_started_at = now()")
	ann.Do("POST", path+"/archive", nil).Problem(t, 409, "operation-in-progress")
}
