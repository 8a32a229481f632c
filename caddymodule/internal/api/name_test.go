package api_test

import (
	"net/url"
	"testing"
)

// The answer does not reveal which workspaces or users exist.
func TestANameLeadsItsOwnerToTheWorkspace(t *testing.T) {
	in := newHarness(t)
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	id := ann.Create("My Project")["id"].(string)
	ann.Create("other")
	path := "/auth/name?host=my-project--ann&return=" + url.QueryEscape("/a?b=c")
	a := ann.Do("GET", path, nil)
	if want := "http://ws-" + id + ".localhost:8080/a?b=c"; a.StatusCode != 307 || a.Header.Get("Location") != want {
		t.Errorf("status %d to %q, want %q", a.StatusCode, a.Header.Get("Location"), want)
	}
	if a := in.anyone().Do("GET", path, nil); a.StatusCode != 303 || a.Header.Get("Location") != "/login?return="+url.QueryEscape(path) {
		t.Errorf("not signed in: status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	missing := ann.Do("GET", "/auth/name?host=nothing--ann", nil)
	for name, a := range map[string]int{
		"somebody else's": bob.Do("GET", path, nil).StatusCode, "unknown": missing.StatusCode,
		"without a name": ann.Do("GET", "/auth/name", nil).StatusCode, "empty": ann.Do("GET", "/auth/name?host=--", nil).StatusCode,
	} {
		if a != 404 {
			t.Errorf("%s: status %d", name, a)
		}
	}
	if a := ann.Do("GET", "/auth/name?host=my-project--ann&return=//evil.example", nil); a.Header.Get("Location") != "http://ws-"+id+".localhost:8080/" {
		t.Errorf("it returns to %q", a.Header.Get("Location"))
	}
}
