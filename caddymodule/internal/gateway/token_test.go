package gateway

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

const (
	withToken  = "Authorization: Bearer " + gatewaytest.Secret
	withNarrow = "Authorization: Bearer " + gatewaytest.NarrowSecret
	withBad    = "Authorization: Bearer chg_unknown"
	withTheirs = "Authorization: Bearer of-the-application"
)

// An access token lets a program in wherever a session lets a browser in, and no application sees it.
func TestAnAccessTokenReachesWorkspaces(t *testing.T) {
	for _, c := range []struct {
		name, path string
		lines      []string
		change     []func(*Options)
	}{
		{"by path", onePath, nil, nil},
		{"by path, where workspaces have hosts", onePath, []string{mozilla}, []func(*Options){perHost}},
		{"on the workspace's own host, without a ticket", "", []string{oneHost}, []func(*Options){perHost}},
		{"where another authentication names the user", "", []string{oneHost}, []func(*Options){perHost, func(o *Options) { o.IdentityOnly = true }}},
		{"as a page", onePath, []string{asPage, "Accept: text/html"}, nil},
		{"with the cookie of another user", onePath, []string{asBob, "Cookie: session=bobs"}, nil},
		{"from a page of another origin that knows it", onePath, []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site", asSubrequest}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHarness(t, c.change...)
			h.Run(one, gatewaytest.Echo(t))
			got := h.get(200, c.path+"/a?b=c", append(c.lines, withToken)...)
			for _, secret := range []string{gatewaytest.Secret, "Authorization", "bobs"} {
				if strings.Contains(got.body, secret) {
					t.Errorf("the application got %q:\n%s", secret, got.body)
				}
			}
		})
	}
}

func TestAnAccessTokenReachesPorts(t *testing.T) {
	h := newHarness(t, portsOn)
	app := gatewaytest.Echo(t)
	h.Run(one, app)
	other := beside(t, app, app)
	got := h.get(200, "/a", portHost(t, other.URL), withToken)
	if strings.Contains(got.body, "Authorization") {
		t.Errorf("what listens on the port got %s", got.body)
	}
	h.get(401, "/a", portHost(t, other.URL), withBad, asAlice)
}

// Applications have tokens of their own.
func TestAnotherBearerIsTheApplications(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	if got := h.get(200, onePath+"/", asAlice, withTheirs); !strings.Contains(got.body, withTheirs+"\r\n") {
		t.Errorf("the application got:\n%s", got.body)
	}
	h.get(401, onePath+"/", withTheirs)
	h.get(403, onePath+"/", asAlice, withTheirs, "Origin: https://evil.example")
}

// A refused token is always answered with a problem, as for programs: with no page, and no way to the sign-in. A
// session in the same request is not used either.
func TestATokenThatIsRefused(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	h.Change(two, func(r *store.Route) { r.OwnerID = "bob" })
	for _, c := range []struct {
		status      int
		path, kind  string
		credentials []string
		challenge   string
	}{
		{401, onePath + "/", "invalid-token", []string{withBad}, `Bearer error="invalid_token"`},
		{401, onePath + "/", "invalid-token", []string{withToken, withToken}, `Bearer error="invalid_token"`},
		{401, onePath + "/", "invalid-token", []string{withTheirs, withToken}, `Bearer error="invalid_token"`},
		{401, onePath + "/", "invalid-token", []string{withToken + ", Basic YTpi"}, `Bearer error="invalid_token"`},
		{403, onePath + "/", "token-scope", []string{withNarrow}, `Bearer error="insufficient_scope", scope="workspace"`},
		{404, gatewaytest.TwoPath + "/", "not-found", []string{withToken}, ""},
		{503, onePath + "/", "unavailable", []string{"Authorization: Bearer " + gatewaytest.AwaySecret}, ""},
		// The resources of the pages are not for tokens.
		{404, onePath + "/.codehub/status", "not-found", []string{withToken}, ""},
		{404, onePath + "/.codehub/keep-awake", "not-found", []string{withToken}, ""},
		{401, onePath + "/.codehub/swap", "invalid-token", []string{withBad}, `Bearer error="invalid_token"`},
	} {
		for _, more := range [][]string{nil, {asAlice}, {asAlice, asPage, "Accept: text/html"}, {asAlice, asSubrequest}} {
			got := h.get(c.status, c.path, append(more, c.credentials...)...)
			if got.Header.Get("WWW-Authenticate") != c.challenge || got.Header.Get("Content-Type") != "application/problem+json" ||
				!strings.Contains(got.body, "problem:"+c.kind+`"`) || len(got.Cookies()) != 0 {
				t.Errorf("%q %q: %v %s", c.credentials, more, got.Header, got.body)
			}
		}
	}
}

func TestATokenThatIsRefusedGetsNoTicket(t *testing.T) {
	h := newHarness(t, perHost)
	h.Run(one, gatewaytest.Echo(t))
	for _, path := range []string{"/", "/.codehub/ticket?t=" + gatewaytest.Ticket(one)} {
		got := h.get(401, path, oneHost, asPage, withBad, "Cookie: codehub_browser="+gatewaytest.Browser)
		if got.Header.Get("Location") != "" || len(got.Cookies()) != 0 {
			t.Errorf("got %v", got.Header)
		}
	}
}

// A preflight carries no token, and gets no permission to send one.
func TestAPreflightGetsNoPermission(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
	}))
	preflight := []string{"Origin: https://evil.example", "Access-Control-Request-Method: GET", "Access-Control-Request-Headers: authorization"}
	for _, more := range [][]string{nil, {asAlice}, {asAlice, "Sec-Fetch-Site: cross-site", asSubrequest}} {
		got, err := h.send("OPTIONS", onePath+"/", "", append(preflight, more...)...)
		if err != nil || got.StatusCode != 403 || got.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %v %d %v", more, err, got.StatusCode, got.Header)
		}
	}
}

func TestAProgramWithATokenWakes(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(*store.Route) {})
	answer := h.getting(onePath+"/", withToken, asPage, "Accept: text/html")
	h.WaitHeld(1)
	wait.Until(t, "it is woken", h.Woken)
	h.Run(one, gatewaytest.Echo(t))
	if got := <-answer; got.StatusCode != 200 || strings.Contains(got.body, gatewaytest.Secret) {
		t.Errorf("status %d: %s", got.StatusCode, got.body)
	}
	if !h.Used(one) {
		t.Error("a request with a token does not count as use")
	}
}

func TestAWebSocketWithAToken(t *testing.T) {
	h := newHarness(t, perHost)
	seen := make(chan http.Header, 10)
	echo := gatewaytest.EchoWebSocket(t, nil)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			seen <- r.Header.Clone()
		}
		echo.Config.Handler.ServeHTTP(w, r)
	}))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	for _, origin := range []string{"", "https://evil.example"} {
		header := http.Header{"Authorization": {"Bearer " + gatewaytest.Secret}, "Cookie": {"codehub_session=x"}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		c, _, err := websocket.Dial(ctx, h.url+"/ws", &websocket.DialOptions{HTTPHeader: header, Host: gatewaytest.OneHost})
		if origin != "" { // the application's own rule
			if err == nil {
				t.Error("the application does not see the origin")
			}
		} else if err != nil {
			t.Fatal(err)
		} else if _, err := roundTrip(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got["Authorization"] != nil || got["Cookie"] != nil {
			t.Errorf("the application got %v", got)
		}
	}
	if _, resp, err := websocket.Dial(ctx, h.url+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer chg_x"}}, Host: gatewaytest.OneHost}); err == nil || resp.StatusCode != 401 {
		t.Errorf("with a token that is not valid: %v", err)
	}
}

// roundTrip sends a message, and returns the answer.
func roundTrip(ctx context.Context, c *websocket.Conn) (string, error) {
	defer func() { _ = c.CloseNow() }()
	if err := c.Write(ctx, websocket.MessageText, []byte("hello")); err != nil {
		return "", err
	}
	_, text, err := c.Read(ctx)
	return string(text), err
}

// git, docker, WebDAV clients and Maven do not support Bearer. They send an access token as the password of Basic, but
// only after the server has asked for Basic.
func TestAnAccessTokenAsAPassword(t *testing.T) {
	basic := func(password string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+password))
	}
	asUser := func(name string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":x-oauth-basic"))
	}
	h := newHarness(t, perHost)
	h.Run(one, gatewaytest.Echo(t))
	for _, c := range []struct {
		status    int
		path      string
		lines     []string
		challenge string
		seen      bool // by the application
	}{
		{401, "/a", []string{oneHost, asProgram}, site.BasicChallenge, false},
		{401, onePath + "/a", []string{asProgram}, site.BasicChallenge, false},
		{401, "/a", []string{oneHost, asSubrequest}, site.BearerChallenge, false}, // a browser would ask its user
		{401, "/a", []string{oneHost, mozilla}, site.BearerChallenge, false},
		{401, "/a", []string{oneHost, basic("chg_unknown")}, site.BasicChallenge, false},
		{401, "/a", []string{oneHost, asAlice, basic("chg_unknown")}, site.BasicChallenge, false},
		{403, "/a", []string{oneHost, basic(gatewaytest.NarrowSecret)}, `Bearer error="insufficient_scope", scope="workspace"`, false},
		{200, "/a", []string{oneHost, basic(gatewaytest.Secret)}, "", false},
		{200, onePath + "/a", []string{basic(gatewaytest.Secret)}, "", false},
		{200, "/a", []string{oneHost, asAlice, asUser(gatewaytest.Secret)}, "", false},
		{401, "/a", []string{oneHost, asAlice, asUser("chg_unknown")}, site.BasicChallenge, false},
		{200, "/a", []string{oneHost, asAlice, basic("of-the-application")}, "", true},
		// A browser adds a password by itself, so a request with one that a page of another origin sends must be
		// refused.
		{403, "/a", []string{oneHost, basic(gatewaytest.Secret), "Origin: https://evil.example"}, "", false},
		{403, "/a", []string{oneHost, basic(gatewaytest.Secret), asSubrequest, "Sec-Fetch-Site: same-site"}, "", false},
		{403, onePath + "/a", []string{basic(gatewaytest.Secret), asSubrequest, "Sec-Fetch-Site: same-origin"}, "", false},
	} {
		got := h.get(c.status, c.path, c.lines...)
		if got.Header.Get("WWW-Authenticate") != c.challenge || strings.Contains(got.body, "Authorization: Basic") != c.seen {
			t.Errorf("%s %q: %q, %s", c.path, c.lines, got.Header.Get("WWW-Authenticate"), got.body)
		}
	}
}
