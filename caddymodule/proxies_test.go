package codehub

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// trusting are the settings of a server behind a proxy on this machine.
var trusting = map[string]any{
	"trusted_proxies":        map[string]any{"source": "static", "ranges": []string{"127.0.0.0/8"}},
	"trusted_proxies_strict": 1,
}

// handshake opens a WebSocket on the workspace's own host, with the cookie that browsers have under https. It returns
// the status and the forwarding headers that the application received.
func handshake(t *testing.T, s *gatewayServer, lines ...string) (int, string) {
	t.Helper()
	token, err := s.Redeem(t.Context(), gatewaytest.Ticket(gatewaytest.One), gatewaytest.Browser, gatewaytest.One)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nCookie: __Host-codehub_ws=%s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nOrigin: https://%[1]s\r\n", gatewaytest.OneHost, token)
	for _, line := range lines {
		fmt.Fprintf(conn, "%s\r\n", line)
	}
	fmt.Fprint(conn, "\r\n")
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header.Get("X-Seen")
}

// seenBy is an application that accepts every WebSocket, and returns the forwarding headers that it
// received.
func seenBy(t *testing.T) *httptest.Server {
	return gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		h := r.Header
		w.Header().Set("X-Seen", fmt.Sprint(h["X-Forwarded-Proto"], h["X-Forwarded-Host"], h["X-Forwarded-For"]))
		if h.Get("Upgrade") == "" {
			return
		}
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		w.WriteHeader(http.StatusSwitchingProtocols)
	})
}

// TestForwardedProtoOfATrustedProxy checks the ways in which a proxy that terminates TLS may announce https. In each
// case a WebSocket opens, and the application gets the same value.
func TestForwardedProtoOfATrustedProxy(t *testing.T) {
	s := startGateway(t, nil)
	s.load(nil, trusting)
	s.Run(gatewaytest.One, seenBy(t))
	for _, said := range []string{"https", "wss", "HTTPS", "WSS", "https, https", "https,http", "https\r\nX-Forwarded-Proto: https", "wss\r\nX-Forwarded-Proto: ws"} {
		status, seen := handshake(t, s, "X-Forwarded-Proto: "+said, "X-Forwarded-Host: evil.example, "+gatewaytest.OneHost,
			"X-Forwarded-For: 6.6.6.6, 192.0.2.1")
		if want := "[https] [" + gatewaytest.OneHost + "] [192.0.2.1, 127.0.0.1]"; status != 101 || seen != want {
			t.Errorf("%q: status %d, and the application got %s, want %s", said, status, seen, want)
		}
	}
	for _, said := range []string{"http", "ws", "HTTP", "gopher"} {
		if status, _ := handshake(t, s, "X-Forwarded-Proto: "+said); status != 401 { // the cookie is that of https
			t.Errorf("%q: status %d", said, status)
		}
	}
	s.load(nil, nil)
	if status, _ := handshake(t, s, "X-Forwarded-Proto: https"); status == 101 {
		t.Error("what a proxy says that is not trusted is believed")
	}
}

// TestPublicURLSaysHTTPS checks that if public_url is https, browsers are taken to use https, whatever the headers of
// the proxy in front say.
// The application reads https, too. Nothing else of such a proxy is believed.
func TestPublicURLSaysHTTPS(t *testing.T) {
	underTest.Lock()
	underTest.addresses = settings.Addresses{Written: "https://codehub.example.com"}
	underTest.Unlock()
	t.Cleanup(func() { underTest.addresses = settings.Addresses{} })
	s := startGateway(t, nil)
	s.Run(gatewaytest.One, seenBy(t))
	for _, server := range []map[string]any{nil, trusting} {
		s.load(nil, server)
		for _, lines := range [][]string{nil, {"X-Forwarded-Proto: http"}, {"X-Forwarded-Proto: ws", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: evil.example"}} {
			status, seen := handshake(t, s, lines...)
			want := "[https] [" + gatewaytest.OneHost + "] [127.0.0.1]"
			if len(lines) > 1 && server != nil {
				want = "[https] [evil.example] [192.0.2.1, 127.0.0.1]"
			}
			if status != 101 || seen != want {
				t.Errorf("%q, trusted %v: status %d, and the application got %s, want %s", lines, server != nil, status, seen, want)
			}
		}
	}
}

// TestClientsDoNotChooseTheirAddress checks that a client cannot make up its address, even if trusted_proxies_strict is
// missing. Wrong passwords are counted for the real address, and the audit names the real address.
func TestClientsDoNotChooseTheirAddress(t *testing.T) {
	in := install(t)
	in.server = map[string]any{"trusted_proxies_unix": true, "client_ip_headers": []string{"X-Forwarded-For"}}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	refused := 0
	for n := range 8 {
		got := in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": "wrong"},
			fmt.Sprintf("X-Forwarded-For: 203.0.113.%d, 198.51.100.7", n))
		if got.StatusCode == 429 {
			refused++
		}
	}
	if refused == 0 {
		t.Error("wrong passwords from addresses that were made up are not counted together")
	}
	entries := in.signedIn("admin").Do("GET", "/api/v1/admin/audit?action=user.sign_in", nil).Object(t)["items"].([]any)
	if len(entries) < 2 {
		t.Errorf("the audit has %v", entries)
	}
	for _, entry := range entries[1:] { // the first is the administrator's own
		if address := entry.(map[string]any)["actor"].(map[string]any)["address"]; address != "198.51.100.7" {
			t.Errorf("the audit has the address %v", address)
		}
	}
}

// TestTheSessionIsSecureBehindAProxy checks that the session's cookie is secure, however the proxy says that the
// browser uses https, and also if public_url says so.
func TestTheSessionIsSecureBehindAProxy(t *testing.T) {
	in := install(t)
	signIn := func(lines ...string) *http.Cookie {
		t.Helper()
		got := in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword}, lines...)
		if got.StatusCode != 200 || len(got.Cookies()) != 1 {
			t.Fatalf("%q: status %d, %v", lines, got.StatusCode, got.Cookies())
		}
		return got.Cookies()[0]
	}
	if c := signIn("X-Forwarded-Proto: https"); c.Secure || c.Name != "session" {
		t.Errorf("behind a proxy that is not trusted: %s", c)
	}
	in.server = map[string]any{"trusted_proxies_unix": true, "client_ip_headers": []string{"X-Forwarded-For"}, "trusted_proxies_strict": 1}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"https", "wss", "HTTPS", "https, https", "https,http"} {
		if c := signIn("X-Forwarded-Proto: " + said); !c.Secure || c.Name != "__Host-session" {
			t.Errorf("%q: %s", said, c)
		}
	}
	in.server, in.app["public_url"] = nil, "https://codehub.test"
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	for _, lines := range [][]string{nil, {"X-Forwarded-Proto: http"}} {
		if c := signIn(lines...); !c.Secure || c.Name != "__Host-session" {
			t.Errorf("with public_url https and %q: %s", lines, c)
		}
	}
}

// TestUntrustedProxiesAreReported once each, up to a maximum number, because clients can look like proxies.
func TestUntrustedProxiesAreReported(t *testing.T) {
	core, logs := observer.New(zapcore.WarnLevel)
	s := newSite(settings.Addresses{}, newUntrustedProxies(zap.New(core)))
	request := func(address string, trusted bool, header string) {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.RemoteAddr = address
		r.Header.Set(header, "https")
		s.Parse(r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, map[string]any{caddyhttp.TrustedProxyVarKey: trusted})))
	}
	request("192.0.2.1:1", true, "X-Forwarded-Proto")
	request("192.0.2.2:1", false, "Accept")
	for range 3 {
		request("192.0.2.3:1", false, "X-Forwarded-For")
		request("192.0.2.3:1", false, "X-Forwarded-Proto")
		request("192.0.2.3:2", false, "X-Forwarded-Host")
	}
	if logs.Len() != 1 || logs.All()[0].ContextMap()["proxy"] != "192.0.2.3" || !strings.Contains(logs.All()[0].Message, "trusted_proxies_strict") {
		t.Errorf("got %+v", logs.All())
	}
	for i := range maxUntrusted {
		request(fmt.Sprintf("[2001:db8::%d]:1", i), false, "X-Forwarded-For")
	}
	if logs.Len() != 2 || logs.All()[1].ContextMap()["proxy"] != "2001:db8::/64" {
		t.Errorf("got %+v", logs.All())
	}
	for i := range 2 * maxUntrusted {
		request(fmt.Sprintf("198.51.100.%d:1", i), false, "X-Forwarded-Proto")
	}
	if logs.Len() != maxUntrusted {
		t.Errorf("%d are reported", logs.Len())
	}
}

// TestAddressesAreWarnedOfAtTheStart checks that problems with addresses are logged at the start. Which proxies the
// servers trust is read from the running servers.
func TestAddressesAreWarnedOfAtTheStart(t *testing.T) {
	in := install(t)
	load := func(server map[string]any) {
		t.Helper()
		in.server = map[string]any{"max_header_bytes": site.HeaderRoom}
		maps.Copy(in.server, server)
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
	}
	load(nil)
	said := func() string {
		app, err := caddy.ActiveContext().AppIfConfigured("codehub")
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zapcore.WarnLevel)
		a := app.(*App)
		warnOfAddresses(a.site, a.servers, zap.New(core))
		var all []string
		for _, entry := range logs.All() {
			all = append(all, fmt.Sprint(entry.ContextMap()["problem"]))
		}
		return strings.Join(all, "\n")
	}
	if got := said(); got != "" {
		t.Errorf("without a proxy: %s", got)
	}
	loose := map[string]any{"trusted_proxies": trusting["trusted_proxies"]}
	for _, c := range []struct {
		server map[string]any
		public string
		want   string
	}{
		{loose, "", "without trusted_proxies_strict"},
		{map[string]any{"trusted_proxies_unix": true}, "", "without trusted_proxies_strict"},
		{trusting, "", ""},
		{trusting, "https://codehub.test", ""},
		{nil, "https://codehub.test", "has no certificate"},
		{trusting, "http://codehub.test", "in the clear"},
		{trusting, "https://elsewhere.test", "people sign in at codehub.test:8080 alone"},
	} {
		in.app["public_url"] = c.public
		load(c.server)
		if got := said(); !strings.Contains(got, c.want) || c.want == "" && got != "" || strings.Contains(got, "\n") {
			t.Errorf("%v, public_url %q: got %q, want %q", c.server, c.public, got, c.want)
		}
	}
}
