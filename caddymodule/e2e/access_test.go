package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// unknown is an id that no workspace has.
const unknown = "00000000-0000-4000-8000-000000000000"

// TestIsolation: only the owner of a workspace reaches it, no other user can find out whether it exists, and no session
// cookie reaches a container (SPEC 8).
func TestIsolation(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_WORKSPACE_URL=path") // where both addresses serve browsers
	owner := in.admin(t)
	other := in.addUser(t, "someone")
	anonymous := in.anonymous()
	w := owner.create(t, "mine")

	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) {
			base := a.base(in, w.ID)
			owner.navigate(t, base)
			containerGetsCleanHeaders(t, owner, base)
			otherUserGetsNotFound(t, other, a, base, a.base(in, unknown), w.ID)
			anonymousMustSignIn(t, anonymous, a, base, w.ID)
		})
	}
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		var body any
		if method == http.MethodPatch {
			body = map[string]string{"desired_state": "STANDBY"}
		}
		other.call(t, method, "/api/v1/workspaces/"+w.ID, body, http.StatusNotFound, nil)
		anonymous.call(t, method, "/api/v1/workspaces/"+w.ID, body, http.StatusUnauthorized, nil)
	}
	other.call(t, http.MethodPost, "/api/v1/workspaces/"+w.ID+"/recover", nil, http.StatusForbidden, nil)
	owner.awaitPhase(t, w.ID, "RUNNING")
	if strings.Contains(in.log.String(), in.password) {
		t.Error("a password is in the log")
	}
}

// containerGetsCleanHeaders checks that the workspace receives its own cookies, but neither the gateway's cookies nor
// forwarding headers that a client made up.
func containerGetsCleanHeaders(t *testing.T, owner *user, base string) {
	t.Helper()
	res, echo := owner.get(t, base+"echo", http.Header{
		"Cookie":    {"mine=kept"},
		"Forwarded": {"for=6.6.6.6"}, "X-Forwarded-For": {"6.6.6.6"}, "X-Forwarded-Prefix": {"/evil"},
	})
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the owner gets %s %s", res.Status, echo)
	}
	if !strings.Contains(echo, "mine=kept") {
		t.Errorf("the workspace's own cookie is lost:\n%s", echo)
	}
	for _, c := range owner.http.Jar.Cookies(parse(t, base)) {
		if strings.Contains(echo, c.Value) {
			t.Errorf("the container received the cookie %s:\n%s", c.Name, echo)
		}
	}
	for _, evil := range []string{"6.6.6.6", "/evil"} {
		if strings.Contains(echo, evil) {
			t.Errorf("the container received %s from the client:\n%s", evil, echo)
		}
	}
}

// otherUserGetsNotFound checks that another user cannot tell the workspace at base from one that does not exist.
// The address elsewhere belongs to the workspace that does not exist.
func otherUserGetsNotFound(t *testing.T, other *user, a address, base, elsewhere, id string) {
	t.Helper()
	// On a workspace's own host only a navigation can sign in, so all other requests are anonymous there.
	want := http.StatusNotFound
	if a.name == "host" {
		want = http.StatusUnauthorized
	}
	for _, h := range []http.Header{subresource, program} {
		theirs, body1 := other.get(t, base, h)
		none, body2 := other.get(t, elsewhere, h)
		if theirs.StatusCode != want || none.StatusCode != want {
			t.Errorf("another user gets %s, and %s for a workspace that does not exist (%v)", theirs.Status, none.Status, h)
		}
		if strings.ReplaceAll(body1, id, unknown) != body2 {
			t.Errorf("the answers differ:\n%s\n%s", body1, body2)
		}
	}
	theirs, body1 := other.navigate(t, base)
	none, body2 := other.navigate(t, elsewhere)
	// The language switch returns to the address that issues the ticket. This address contains the browser's secret for
	// that host.
	secret := regexp.MustCompile(`browser=[\w%-]+`)
	body1, body2 = secret.ReplaceAllString(body1, ""), secret.ReplaceAllString(body2, "")
	if theirs.StatusCode != http.StatusNotFound || none.StatusCode != http.StatusNotFound ||
		strings.ReplaceAll(body1, id, unknown) != body2 {
		t.Errorf("another user's page is %s, and %s for a workspace that does not exist:\n%s\n%s", theirs.Status, none.Status, body1, body2)
	}
}

// anonymousMustSignIn checks that a client without a session gets 401, and that a
// navigation is sent to the sign-in page and back.
func anonymousMustSignIn(t *testing.T, anonymous *user, a address, base, id string) {
	t.Helper()
	for _, h := range []http.Header{program, subresource} {
		if res, _ := anonymous.get(t, base, h); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("without a session a client gets %s (%v)", res.Status, h)
		}
	}
	res, _ := anonymous.get(t, base+"a?b=c", navigation)
	want := "/login?return=" + url.QueryEscape(parse(t, base).Path+"a?b=c")
	if a.name == "host" {
		// Each attempt counts as a different browser, with its own secret.
		want = anonymous.in.url("/auth/ticket?" + url.Values{"browser": {parse(t, res.Header.Get("Location")).Query().Get("browser")}, "return": {"/a?b=c"}, "workspace": {id}}.Encode())
	}
	if to := res.Header.Get("Location"); res.StatusCode/100 != 3 || to != want {
		t.Errorf("a navigation without a session gets %s to %q, want %q", res.Status, to, want)
	}
	if res, body := anonymous.navigate(t, base); res.StatusCode != http.StatusOK || !strings.Contains(body, `id="password"`) {
		t.Errorf("a navigation without a session ends with %s:\n%s", res.Status, body)
	}
}

func parse(t *testing.T, rawURL string) *url.URL {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// TestLimits: a user may run two workspaces. The API refuses to start a third one with 429, and the gateway answers
// with a page that lists the running ones (SPEC 5, 8).
func TestLimits(t *testing.T) {
	t.Parallel()
	in := install(t, "LIMITS_MAX_RUNNING_PER_USER=2")
	me := in.admin(t)
	standby := me.create(t, "in standby")
	base := me.enter(t, standby.ID)
	me.setDesiredState(t, standby.ID, "STANDBY")
	me.awaitPhase(t, standby.ID, "STANDBY")
	me.create(t, "first one")
	me.create(t, "second one")

	me.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "third"}, http.StatusTooManyRequests, nil)
	me.call(t, http.MethodPatch, "/api/v1/workspaces/"+standby.ID, map[string]string{"desired_state": "RUNNING"}, http.StatusTooManyRequests, nil)
	wait.For(t, "the limit page is shown", func() error {
		res, body := me.get(t, base, navigation)
		if res.StatusCode == http.StatusSeeOther { // to the main site
			res, body = me.get(t, res.Header.Get("Location"), navigation)
		}
		if res.StatusCode != http.StatusBadGateway {
			t.Fatalf("a navigation over the limit: %s", res.Status)
		}
		if !strings.Contains(body, "first one") || !strings.Contains(body, "second one") {
			return fmt.Errorf("the page does not list the running ones:\n%s", body)
		}
		return nil
	})
	if res, body := me.get(t, base, program); res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a program over the limit: %s %s", res.Status, body)
	}
	if res, _ := me.get(t, base, subresource); res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a subresource over the limit: %s", res.Status)
	}
	me.awaitPhase(t, standby.ID, "STANDBY")
}
