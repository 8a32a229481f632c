package codehub

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway"
	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The gateway's decisions are tested in its package. Here the gateway runs in a real Caddy server with a real
// reverse_proxy. The tests cover what Caddy adds, and reloads.

func init() {
	caddy.RegisterModule(new(testGateway))
}

// testGateway is the gateway's handler. It serves the product that the running test has set up.
type testGateway struct{ Gateway }

// underTest belongs to the gateway test that is running. Only one such test runs at a time, because a process has only
// one Caddy.
var underTest struct {
	sync.Mutex
	product *gatewaytest.Product
	// identity replaces the product's function that identifies users, unless it is nil.
	identity func(*http.Request, *site.Address) (auth.Grant, error)
	// token replaces the product's function for access tokens, unless it is nil.
	token func(*http.Request, string) (auth.Grant, error)
	// addresses are those of the installation.
	addresses settings.Addresses
}

func (*testGateway) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_gateway", New: func() caddy.Module { return new(testGateway) }}
}

func (g *testGateway) Provision(ctx caddy.Context) error {
	underTest.Lock()
	defer underTest.Unlock()
	p := underTest.product
	if err := quiesceFirst(ctx); err != nil {
		return err
	}
	identity := p.Identity
	if underTest.identity != nil {
		identity = underTest.identity
	}
	token := p.Token
	if underTest.token != nil {
		token = underTest.token
	}
	g.vouched = func(userID string) auth.Grant { return auth.Grant{User: auth.User{ID: userID}} }
	options := productOptions(p)
	options.Identity, options.Token = identity, token
	return g.provision(ctx, underTest.addresses, options)
}

// productOptions returns the options that the app would give to the gateway, filled with the parts of a product.
func productOptions(p *gatewaytest.Product) gateway.Options {
	return gateway.Options{
		Routes: p.Table, Activator: p.Wakes, Activity: p.Activity, Sessions: p, Service: p, Identity: p.Identity, Token: p.Token,
		Client: auditClient, ClientAddress: clientAddress, RequestID: requestID, Answered: logAnswer, Tracer: tracing.Off(),
		WaitReady: func(context.Context) error { return nil }, Refused: func() *postgres.OlderError { return nil },
	}
}

// gatewayServer is Caddy with the gateway.
type gatewayServer struct {
	*gatewaytest.Product
	t   *testing.T
	url string // without a slash
	// apps are additional apps of every configuration. storage is where the apps keep files; nil means the usual place.
	apps    map[string]any
	storage any
	encode  json.RawMessage // the route before the gateway, if there is one
}

// startGateway starts Caddy. Settings are those of the handler.
func startGateway(t *testing.T, settings map[string]any) *gatewayServer {
	t.Helper()
	s := &gatewayServer{Product: gatewaytest.New(t), t: t}
	underTest.Lock()
	underTest.product = s.Product
	underTest.Unlock()
	port, err := server.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s.url = fmt.Sprintf("http://127.0.0.1:%d", port)
	t.Cleanup(func() { _ = caddy.Stop() })
	s.load(settings, nil)
	return s
}

// load makes Caddy run a configuration. It can be called again to load another one.
func (s *gatewayServer) load(settings, server map[string]any) {
	s.t.Helper()
	handler := map[string]any{"handler": "test_gateway"}
	for k, v := range settings {
		handler[k] = v
	}
	routes := []any{map[string]any{"handle": []any{handler, map[string]any{"handler": "static_response", "status_code": 418}}}}
	if s.encode != nil {
		routes = slices.Insert(routes, 0, any(s.encode))
	}
	srv := map[string]any{
		"listen":          []string{s.url[strings.Index(s.url, "//")+2:]},
		"automatic_https": map[string]any{"disable": true},
		"routes":          routes,
	}
	for k, v := range server {
		srv[k] = v
	}
	apps := map[string]any{"http": map[string]any{"grace_period": "1s", "servers": map[string]any{"s": srv}}}
	maps.Copy(apps, s.apps)
	all := map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "PANIC"}}},
		"apps":    apps,
	}
	if s.storage != nil {
		all["storage"] = s.storage
	}
	config, err := json.Marshal(all)
	if err != nil {
		s.t.Fatal(err)
	}
	var cfg caddy.Config
	if err := json.Unmarshal(config, &cfg); err != nil {
		s.t.Fatal(err)
	}
	if err := caddy.Run(&cfg); err != nil {
		s.t.Fatal(err)
	}
}

// send makes a request of alice's and returns the status and the body.
func (s *gatewayServer) send(method, path, body string, header ...string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set(gatewaytest.UserHeader, "alice")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestGatewayProxiesThroughCaddy(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	status, got := s.send("GET", gatewaytest.OnePath+"/a%2Fb/?q=%20x", "", "Cookie", "a=1; session=secret", "Forwarded", "for=1.2.3.4",
		"X-Forwarded-Prefix", "/evil", "Remote-User", "root", "X-Forwarded-For", "6.6.6.6")
	host := s.url[len("http://"):]
	for _, want := range []string{
		"GET /a%2Fb/?q=%20x host=" + host, "Cookie: a=1\r\n", "X-Forwarded-Prefix: " + gatewaytest.OnePath + "\r\n",
		"X-Forwarded-Host: " + host, "X-Forwarded-Proto: http\r\n", "X-Forwarded-For: 127.0.0.1\r\n",
	} {
		if status != 200 || !strings.Contains(got, want) {
			t.Errorf("status %d, the workspace did not get %q:\n%s", status, want, got)
		}
	}
	for _, secret := range []string{"secret", "Forwarded: for", "/evil", "root", "6.6.6.6"} {
		if strings.Contains(got, secret) {
			t.Errorf("the workspace got %q:\n%s", secret, got)
		}
	}
	if status, _ := s.send("GET", "/other", ""); status != 418 {
		t.Errorf("a request that is for no workspace got %d, and not the next handler", status)
	}
}

// TestGatewayIdentityFromAPlaceholder: any authentication handler of Caddy can name the user, through a placeholder.
func TestGatewayIdentityFromAPlaceholder(t *testing.T) {
	s := startGateway(t, map[string]any{"identity": "{http.request.header.X-Somebody}"})
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	for user, want := range map[string]int{"alice": 200, "bob": 404, "": 401} {
		if status, got := s.send("GET", gatewaytest.OnePath+"/", "", "X-Somebody", user); status != want {
			t.Errorf("%q got %d, want %d: %s", user, status, want, got)
		}
	}
}

// TestUserPlaceholdersOnAWorkspacesOwnHost: a header for the application can contain the user's placeholders on a
// workspace's own host, too.
func TestUserPlaceholdersOnAWorkspacesOwnHost(t *testing.T) {
	s := startGateway(t, map[string]any{"proxy": map[string]any{
		"handler": "reverse_proxy", "dynamic_upstreams": map[string]any{"source": "codehub"},
		"headers": map[string]any{"request": map[string]any{"set": map[string]any{"X-Somebody": []string{"[{http.auth.user.id}]"}}}},
	}})
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	token, err := s.Redeem(t.Context(), gatewaytest.Ticket(gatewaytest.One), gatewaytest.Browser, gatewaytest.One)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("GET", s.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = gatewaytest.OneHost
	r.AddCookie(&http.Cookie{Name: site.WorkspaceCookie, Value: token})
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 200 || !bytes.Contains(got, []byte("X-Somebody: [alice]\r\n")) {
		t.Errorf("status %d: %s", resp.StatusCode, got)
	}
}

// TestProxyErrorsOfCaddy: if the container cannot be dialed, the request is held for the next container. If an
// application breaks off its answer, the gateway answers.
func TestProxyErrorsOfCaddy(t *testing.T) {
	s := startGateway(t, nil)
	dead := gatewaytest.Echo(t)
	s.Run(gatewaytest.One, dead)
	if status, _ := s.send("GET", gatewaytest.OnePath+"/", ""); status != 200 {
		t.Fatalf("before: %d", status)
	}
	gatewaytest.Kill(t, dead)
	if status, got := s.send("POST", gatewaytest.OnePath+"/", "body"); status != 503 || !strings.Contains(got, "does not answer") {
		t.Errorf("a request with a body: %d %s", status, got)
	}
	answer := make(chan int, 1)
	go func() { status, _ := s.send("GET", gatewaytest.OnePath+"/", ""); answer <- status }()
	s.WaitHeld(1)
	s.Run(gatewaytest.One, gatewaytest.App(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler)
		}
	}))
	if got := <-answer; got != 200 {
		t.Errorf("the held request got %d", got)
	}
	if status, got := s.send("GET", gatewaytest.OnePath+"/x", ""); status != 502 || !strings.Contains(got, "problem:no-answer") {
		t.Errorf("an application that broke off: %d %s", status, got)
	}
	if status, got := s.send("GET", gatewaytest.OnePath+"/x", "", "Sec-Fetch-Mode", "navigate"); status != 502 || !strings.Contains(got, "gave no answer") {
		t.Errorf("a page of it: %d %s", status, got)
	}
}

// TestRawRequests sends headers with which attackers try to smuggle in identities or requests. It sends them as raw
// bytes, because a client would correct them.
func TestRawRequests(t *testing.T) {
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	send := func(raw string) string {
		conn, err := net.Dial("tcp", s.url[len("http://"):])
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(wait.Timeout))
		fmt.Fprint(conn, raw)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return "closed"
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(b))
	}
	const path = gatewaytest.OnePath
	alice := gatewaytest.UserHeader + ": alice\r\nConnection: close\r\n"
	for _, c := range []struct{ name, raw, status string }{
		{"two hosts", "GET " + path + "/ HTTP/1.1\r\nHost: localhost\r\nHost: ws-x.localhost\r\n" + alice + "\r\n", "400"},
		{"length and chunks", "POST " + path + "/ HTTP/1.1\r\nHost: localhost\r\n" + alice + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n", ""},
		{"two lengths", "POST " + path + "/ HTTP/1.1\r\nHost: localhost\r\n" + alice + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		{"space before the colon", "GET " + path + "/ HTTP/1.1\r\nHost: localhost\r\n" + alice + "Forwarded : for=x\r\n\r\n", "400"},
		{"claims in many spellings", "GET " + path + "/ HTTP/1.1\r\nHost: localhost\r\n" + alice + "forwarded: for=EVIL\r\nFORWARDED: for=EVIL\r\nremote_user: EVIL\r\nx-codehub-role: EVIL\r\n\r\n", "200"},
		{"claims kept by Connection", "GET " + path + "/ HTTP/1.1\r\nHost: localhost\r\nX-Test-User: alice\r\nConnection: close, X-Forwarded-Prefix\r\nX-Forwarded-Prefix: /EVIL\r\n\r\n", "200"},
		{"two cookie lines", "GET " + path + "/ HTTP/1.1\r\nHost: localhost\r\n" + alice + "Cookie: session=EVIL\r\nCookie: a=1; session=EVIL\r\n\r\n", "200"},
	} {
		got := send(c.raw)
		if !strings.HasPrefix(got, c.status) || strings.Contains(got, "EVIL") || strings.Contains(got, "smuggled") {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}

// TestReloadKeepsHeldRequestsAndWebSockets: both outlive their configuration, and
// messages still count as activity.
func TestReloadKeepsHeldRequestsAndWebSockets(t *testing.T) {
	s := startGateway(t, nil)
	s.Change(gatewaytest.Two, func(*store.Route) {})
	s.Run(gatewaytest.One, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Set-Cookie"] = []string{"a=1", "session=evil"}
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		for {
			kind, msg, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, msg) != nil {
				return
			}
		}
	}))
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	c, resp, err := websocket.Dial(ctx, s.url+gatewaytest.OnePath+"/ws", &websocket.DialOptions{HTTPHeader: http.Header{gatewaytest.UserHeader: {"alice"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	if got := resp.Header["Set-Cookie"]; !slices.Equal(got, []string{"a=1"}) {
		t.Errorf("the handshake sets the cookies %q", got)
	}
	held := make(chan int, 1)
	go func() { status, _ := s.send("GET", gatewaytest.TwoPath+"/", ""); held <- status }()
	s.WaitHeld(1)

	s.load(map[string]any{"wake_timeout": "4m"}, nil)
	s.Used(gatewaytest.One)
	if err := c.Write(ctx, websocket.MessageText, []byte("after the reload")); err != nil {
		t.Fatal(err)
	}
	if _, msg, err := c.Read(ctx); err != nil || !bytes.Equal(msg, []byte("after the reload")) {
		t.Fatalf("after the reload: %q %v", msg, err)
	}
	if !s.Used(gatewaytest.One) {
		t.Error("a message after a reload is not activity")
	}
	s.Change(gatewaytest.Two, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	s.Run(gatewaytest.Two, gatewaytest.Echo(t))
	if status := <-held; status != 200 {
		t.Errorf("the held request got %d after the reload", status)
	}
}
