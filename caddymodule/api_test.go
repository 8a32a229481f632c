package codehub

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestAPIBehindCaddy: the API receives everything that it needs from Caddy and from the app.
func TestAPIBehindCaddy(t *testing.T) {
	in := install(t)
	ann := in.signedIn("ann")
	host, _ := os.Hostname()
	h := in.signedIn("admin").Do("GET", "/health/coordinator", nil).Object(t)
	if h["is_leader"] != false || h["node_id"] != host || h["uptime_seconds"].(float64) < 0 {
		t.Errorf("got %v, want the host's name %q", h, host)
	}
	if a := ann.Do("GET", "/nothing", nil); string(a.Text) != "next" {
		t.Errorf("got %s", a.Text)
	}
	w := ann.Create("one")
	if want := "/w/" + w["id"].(string) + "/"; w["url"] != want {
		t.Errorf("the address is %v, want %s", w["url"], want)
	}

	in.app["session_ttl"] = "2h"
	handler := in.routes[0]["handle"].([]map[string]any)[0]
	handler["workspace_url"], handler["main_host"] = "host", "front.example"
	in.routes = append(in.routes[:1:1], map[string]any{"handle": []map[string]any{{"handler": "static_response", "body": "next"}}})
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	front := in.anyone()
	front.Host, ann.Host = "front.example", "front.example"
	a := front.Do("POST", "/api/v1/auth/login", map[string]any{"username": "ann", "password": testPassword}, "Origin: https://front.example")
	if a.StatusCode != 200 || a.Cookies()[0].MaxAge != 7200 {
		t.Fatalf("status %d, cookies %v: %s", a.StatusCode, a.Cookies(), a.Text)
	}
	if got := ann.Do("GET", "/api/v1/workspaces/"+w["id"].(string), nil).Object(t)["url"]; got != "http://ws-"+w["id"].(string)+".localhost/" {
		t.Errorf("the address is %v", got)
	}
}

// If a page cannot be shown, Caddy gets an error, for which the configuration may have an error page of its own.
func TestErrorsOfPagesReachHandleErrors(t *testing.T) {
	in := install(t)
	in.errors = []map[string]any{{"handle": []map[string]any{
		{"handler": "static_response", "status_code": "{http.error.status_code}", "body": "own page {http.error.status_code}"},
	}}}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	c := in.anyone()
	for path, want := range map[string]string{"/assets/nothing.js": "404", "/auth/ticket?workspace=x": "404"} {
		if a := c.Do("GET", path, nil); a.StatusCode != 404 || string(a.Text) != "own page "+want {
			t.Errorf("%s: status %d: %s", path, a.StatusCode, a.Text)
		}
	}
	if a := c.Do("POST", "/login", nil); a.StatusCode != 405 || string(a.Text) != "own page 405" || a.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("status %d, %v: %s", a.StatusCode, a.Header, a.Text)
	}
	c.Do("GET", "/api/v1/nothing", nil).Problem(t, 404, "not-found") // programs get a problem
}

// An open event stream must not make a reload, or a stop, wait for it.
func TestEventStreamsEndWithTheConfiguration(t *testing.T) {
	in := install(t)
	ann := in.signedIn("ann")
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
		defer cancel()
		res := ann.Open(ctx, "GET", "/api/v1/events", nil)
		defer res.Body.Close()
		stream := bufio.NewReader(res.Body)
		if line, err := stream.ReadString('\n'); err != nil || strings.TrimSpace(line) != "event: heartbeat" {
			t.Fatalf("got %q, %v", line, err)
		}
		in.app["limits"] = map[string]any{"max_running_per_user": 7}
		in.app["sse_heartbeat_interval"] = "1h"
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, stream); err != nil {
			t.Errorf("the stream does not end by itself: %v", err)
		}
		in.app["limits"] = map[string]any{"max_running_per_user": 8}
	}
}

// TestTheAccessLogNamesWhoAsksTheAPI checks that a line of the access log contains the id of the user whose session or
// access token the request has, under Caddy's own key. A request that is refused has no user.
func TestTheAccessLogNamesWhoAsksTheAPI(t *testing.T) {
	in := install(t)
	in.log, in.server = filepath.Join(t.TempDir(), "log"), map[string]any{"logs": map[string]any{}}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	ann, anyone := in.signedIn("ann"), in.anyone()
	id := ann.Do("GET", "/api/v1/me", nil).Object(t)["user_id"].(string)
	token := ann.Do("POST", "/api/v1/tokens", map[string]any{"name": "x", "scopes": []string{"read"}}).Object(t)["token"].(string)
	for _, path := range []string{"/api/v1/limits", "/api/v1/users"} { // the scope of the token allows the first one only
		anyone.Do("GET", path, nil, "Authorization: Bearer "+token)
	}
	anyone.Do("GET", "/api/v1/images", nil)
	want := map[string]string{"/api/v1/me": id, "/api/v1/tokens": id, "/api/v1/limits": id, "/api/v1/users": "", "/api/v1/images": ""}
	wait.For(t, "the log says who has asked", func() error {
		text, err := os.ReadFile(in.log)
		if err != nil {
			return err
		}
		got := make(map[string]string)
		for line := range strings.Lines(string(text)) {
			var access struct {
				Logger  string
				UserID  string `json:"user_id"`
				Request struct{ URI string }
			}
			if err := json.Unmarshal([]byte(line), &access); err != nil {
				return err // the end of the line is still to come
			}
			if _, asked := want[access.Request.URI]; asked && strings.HasPrefix(access.Logger, "http.log.access") {
				got[access.Request.URI] = access.UserID
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("%v, not %v", got, want)
		}
		return nil
	})
}
