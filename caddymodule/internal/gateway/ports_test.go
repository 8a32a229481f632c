package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// portHost returns the header line for the workspace's host that stands for the port on which a server listens.
func portHost(t *testing.T, address string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	return "Host: " + port + "--" + gatewaytest.OneHost
}

// beside starts a server that answers as like does, at the address of app but on another port. It stands for a program
// that listens on another port of the same container.
func beside(t *testing.T, app, like *httptest.Server) *httptest.Server {
	t.Helper()
	host, _, _ := net.SplitHostPort(app.Listener.Addr().String())
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(like.Config.Handler)
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func portsOn(o *Options) { o.Ports = PortsOn }

func TestPortsHaveHostsOfTheirOwn(t *testing.T) {
	h := newHarness(t, portsOn)
	app := gatewaytest.Echo(t)
	h.Run(one, app)
	server, other := beside(t, app, app), beside(t, app, gatewaytest.EchoWebSocket(t, nil))
	host := portHost(t, server.URL)
	got := h.get(200, "/a?b", asAlice, host)
	if !strings.Contains(got.body, "GET /a?b host="+strings.TrimPrefix(host, "Host: ")) {
		t.Errorf("got %s", got.body)
	}
	// Only the owner reaches the ports, and each host needs its own ticket.
	h.get(404, "/", asBob, host)
	h.get(401, "/", asProgram, host)
	if to := h.get(303, "/x", asPage, host).Header.Get("Location"); !strings.Contains(to, "/auth/ticket?") || !strings.Contains(to, "port="+server.URL[strings.LastIndex(server.URL, ":")+1:]) {
		t.Errorf("signing in leads to %q", to)
	}
	redeemed := h.get(303, "/.codehub/ticket?t=ticket-"+string(one)+"&return=/x", host, asPage, "Cookie: codehub_browser="+gatewaytest.Browser)
	h.get(200, "/x", host, "Cookie: codehub_ws="+redeemed.Cookies()[0].Value)
	// Other ports of the same workspace are other origins.
	h.get(403, "/", asAlice, host, "Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty")
	// The application's own port has a host already.
	if to := h.get(307, "/a?b", asAlice, portHost(t, app.URL)).Header.Get("Location"); !strings.HasSuffix(to, gatewaytest.OneHost+"/a?b") {
		t.Errorf("the application's port leads to %q", to)
	}
	for _, wrong := range []string{"0--", "65536--", "080--"} {
		h.get(404, "/", asAlice, asPage, "Host: "+wrong+gatewaytest.OneHost)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	c, _, err := websocket.Dial(ctx, h.url, &websocket.DialOptions{Host: strings.TrimPrefix(portHost(t, other.URL), "Host: "), HTTPHeader: http.Header{"X-Test-User": {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(ctx, websocket.MessageText, []byte("hot")); err != nil {
		t.Fatal(err)
	}
	if _, b, err := c.Read(ctx); err != nil || string(b) != "hot" {
		t.Errorf("the WebSocket answers %q, %v", b, err)
	}
}

// The workspace runs, with or without an answer of its application. A request to a port without a listener wakes
// nothing, and the gateway still knows whether the application has answered.
func TestAPortOnWhichNothingListens(t *testing.T) {
	h := newHarness(t, portsOn)
	app := gatewaytest.Echo(t)
	server := beside(t, app, app)
	host := portHost(t, server.URL)
	h.Run(one, app)
	h.get(200, "/", asAlice, oneHost)
	gatewaytest.Kill(t, server)
	got := h.get(502, "/", asAlice, asPage, host)
	if got.Header.Get("Refresh") == "" || !strings.Contains(got.body, "Nothing listens on port") {
		t.Errorf("got %v %s", got.Header, got.body)
	}
	if got := h.get(502, "/", asAlice, asProgram, host); !strings.Contains(got.body, "problem:nothing-listens") {
		t.Errorf("got %s", got.body)
	}
	h.get(502, "/", asAlice, asSubrequest, host)
	if e, _ := h.Table.Lookup(one); !e.State().Ready() || h.Woken() {
		t.Error("the application counts as gone")
	}
}

func TestPortsOfASleepingWorkspaceWakeIt(t *testing.T) {
	h := newHarness(t, portsOn)
	h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
	host := "Host: 3000--" + gatewaytest.OneHost
	h.get(503, "/", asAlice, asSubrequest, host)
	if h.Woken() {
		t.Error("a forgotten tab wakes it")
	}
	h.get(502, "/", asAlice, asPage, host)
	if !h.Woken() {
		t.Error("a navigation does not wake it")
	}
}

func TestPortsAreOffOrUnpublished(t *testing.T) {
	for access, want := range map[PortAccess]string{PortsOff: "Not found", PortsUnpublished: "Other ports cannot be reached"} {
		h := &harness{}
		t.Run(want, func(t *testing.T) {
			h = newHarness(t, func(o *Options) { o.Ports = access })
			server := gatewaytest.Echo(t)
			h.Run(one, gatewaytest.Echo(t))
			host := portHost(t, server.URL)
			if got := h.get(404, "/", asAlice, asPage, host); !strings.Contains(got.body, want) {
				t.Errorf("got %s", got.body)
			}
			h.get(404, "/", asAlice, asProgram, host)
			if access == PortsOff {
				h.get(404, "/", asPage, host) // not even a sign-in
			}
		})
	}
}
