package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// leftovers is an error while the workspace still has a container, a job or a
// volume.
func (in *installation) leftovers(t testing.TB, id string) error {
	t.Helper()
	if s := in.container(t, id); s != "" || in.hasVolume(t, id) {
		return fmt.Errorf("container %q, volume %v", s, in.hasVolume(t, id))
	}
	return nil
}

// shows is an error while the address does not show the workspace itself.
func (p *person) shows(t testing.TB, base string) error {
	t.Helper()
	res, body := p.get(t, base, navigation)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `id="terminal"`) {
		return errors.New(res.Status)
	}
	return nil
}

// TestStrangers: nobody gets in who may not, nobody learns whether a workspace
// exists, and no session reaches a container.
func TestStrangers(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	other := in.addUser(t, "someone")
	nobody := &person{in: in, http: browserLike(nil)}
	w := me.create(t, "mine")
	const unknown = "00000000-0000-4000-8000-000000000000"

	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) {
			base := a.base(in, w.ID)
			me.enter(t, base)
			res, echo := me.get(t, base+"echo", http.Header{
				"Cookie":    {"mine=kept"},
				"Forwarded": {"for=6.6.6.6"}, "X-Forwarded-For": {"6.6.6.6"}, "X-Forwarded-Prefix": {"/evil"},
			})
			if res.StatusCode != http.StatusOK {
				t.Fatalf("the owner gets %s %s", res.Status, echo)
			}
			if !strings.Contains(echo, "mine=kept") {
				t.Errorf("a cookie of the workspace's own is lost:\n%s", echo)
			}
			here, err := url.Parse(base)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range me.http.Jar.Cookies(here) {
				if strings.Contains(echo, c.Value) {
					t.Errorf("the container received the cookie %s:\n%s", c.Name, echo)
				}
			}
			for _, evil := range []string{"6.6.6.6", "/evil"} {
				if strings.Contains(echo, evil) {
					t.Errorf("the container received %s from the client:\n%s", evil, echo)
				}
			}

			// On a workspace's own host nobody knows a stranger, who is sent to where
			// people sign in, and gets the 404 there.
			want := http.StatusNotFound
			if a.name == "host" {
				want = http.StatusUnauthorized
			}
			elsewhere := a.base(in, unknown)
			for _, h := range []http.Header{background, asProgram} {
				theirs, body1 := other.get(t, base, h)
				none, body2 := other.get(t, elsewhere, h)
				if theirs.StatusCode != want || none.StatusCode != want {
					t.Errorf("a stranger gets %s, and %s for what does not exist (%v)", theirs.Status, none.Status, h)
				}
				if strings.ReplaceAll(body1, w.ID, unknown) != body2 {
					t.Errorf("the answers differ:\n%s\n%s", body1, body2)
				}
			}
			theirs, body1 := other.enter(t, base)
			none, body2 := other.enter(t, elsewhere)
			if theirs.StatusCode != http.StatusNotFound || none.StatusCode != http.StatusNotFound ||
				strings.ReplaceAll(body1, w.ID, unknown) != body2 {
				t.Errorf("a stranger's page is %s, and %s for what does not exist:\n%s\n%s", theirs.Status, none.Status, body1, body2)
			}

			if res, _ := nobody.get(t, base, asProgram); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("a program without a session gets %s", res.Status)
			}
			if res, _ := nobody.get(t, base, background); res.StatusCode != http.StatusUnauthorized {
				t.Errorf("a page without a session gets %s", res.Status)
			}
			res, _ = nobody.get(t, base+"a?b=c", navigation)
			way := "/login?return=" + url.QueryEscape(here.Path+"a?b=c")
			if a.name == "host" {
				way = in.url("/auth/ticket?workspace=" + w.ID + "&return=" + url.QueryEscape("/a?b=c"))
			}
			if to := res.Header.Get("Location"); res.StatusCode/100 != 3 || to != way {
				t.Errorf("a navigation without a session gets %s to %q, want %q", res.Status, to, way)
			}
			if res, body := nobody.enter(t, base); res.StatusCode != http.StatusOK || !strings.Contains(body, `id="password"`) {
				t.Errorf("a navigation without a session ends with %s:\n%s", res.Status, body)
			}
		})
	}
	for _, call := range []struct {
		method, path string
	}{{http.MethodGet, ""}, {http.MethodPatch, ""}, {http.MethodDelete, ""}} {
		body := any(nil)
		if call.method == http.MethodPatch {
			body = map[string]string{"desired_state": "STANDBY"}
		}
		other.call(t, call.method, "/api/v1/workspaces/"+w.ID+call.path, body, http.StatusNotFound, nil)
		nobody.call(t, call.method, "/api/v1/workspaces/"+w.ID+call.path, body, http.StatusUnauthorized, nil)
	}
	other.call(t, http.MethodPost, "/api/v1/workspaces/"+w.ID+"/recover", nil, http.StatusForbidden, nil)
	me.await(t, w.ID, "RUNNING")
	if strings.Contains(in.log.String(), in.password) {
		t.Error("a password is in the log")
	}
}

// TestLimits: a third running workspace of one user is refused, by the API with
// 429 and by the gateway with a page that lists the running ones (SPEC 5, 8).
func TestLimits(t *testing.T) {
	t.Parallel()
	in := install(t, "LIMITS_MAX_RUNNING_PER_USER=2")
	me := in.admin(t)
	asleep := me.create(t, "asleep")
	me.wish(t, asleep.ID, "STANDBY")
	me.await(t, asleep.ID, "STANDBY")
	me.create(t, "first one")
	me.create(t, "second one")

	me.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "third"}, http.StatusTooManyRequests, nil)
	me.call(t, http.MethodPatch, "/api/v1/workspaces/"+asleep.ID, map[string]string{"desired_state": "RUNNING"}, http.StatusTooManyRequests, nil)
	base := addresses[0].base(in, asleep.ID)
	eventually(t, "the limit page is shown", func() error {
		res, body := me.get(t, base, navigation)
		if res.StatusCode != http.StatusBadGateway {
			t.Fatalf("a navigation over the limit: %s", res.Status)
		}
		if !strings.Contains(body, "first one") || !strings.Contains(body, "second one") {
			return fmt.Errorf("the page does not list the running ones:\n%s", body)
		}
		return nil
	})
	if res, body := me.get(t, base, asProgram); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a program over the limit: %s %s", res.Status, body)
	}
	if res, _ := me.get(t, base, background); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a tab over the limit: %s", res.Status)
	}
	me.await(t, asleep.ID, "STANDBY")
}
