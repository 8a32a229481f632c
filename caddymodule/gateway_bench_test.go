package codehub

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// kilobyte is an application that answers without using a network.
type kilobyte struct{ body []byte }

func (k kilobyte) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header:        http.Header{"Content-Type": {"text/plain"}, "Content-Length": {strconv.Itoa(len(k.body))}, "Date": {"Sat, 01 Jan 2000 00:00:00 GMT"}},
		ContentLength: int64(len(k.body)), Body: io.NopCloser(bytes.NewReader(k.body)),
	}, nil
}

// discard is a client that accepts every answer and discards it.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkProxied measures a page's request through the gateway and, for comparison, through a plain reverse_proxy.
// The difference is the cost of the gateway. There is no network, and the session is in memory. `make bench-gateway`
// shows how large this cost is compared with a whole request.
func BenchmarkProxied(b *testing.B) {
	st := storetest.Open(b)
	a := auth.New(accounts.New(st.DB), auth.Options{})
	b.Cleanup(a.Close)
	user, err := a.AddUser(b.Context(), "ann", testPassword, auth.RoleUser)
	if err != nil {
		b.Fatal(err)
	}
	token, _, err := a.Login(b.Context(), "ann", testPassword, auth.Client{})
	if err != nil {
		b.Fatal(err)
	}
	storetest.Exec(b, st, `INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		VALUES ($1, $2, 'measured', 'docker', 'docker', 'x', 'RUNNING', 'RUNNING')`, string(gatewaytest.One), user.ID)
	secret := auth.NewBrowserSecret()
	browser, _ := auth.BrowserHash(secret)
	ticket, err := a.Ticket(b.Context(), token, gatewaytest.One, browser)
	if err != nil {
		b.Fatal(err)
	}
	own, err := a.Redeem(b.Context(), ticket, secret, gatewaytest.One)
	if err != nil {
		b.Fatal(err)
	}
	p := gatewaytest.New(b)
	p.Change(gatewaytest.One, func(r *store.Route) { r.OwnerID = user.ID })
	p.Run(gatewaytest.One, httptest.NewServer(http.NotFoundHandler()))
	e, _ := p.Table.Lookup(gatewaytest.One)
	e.SetAnswered(e.State(), true)

	ctx, err := caddy.ProvisionContext(&caddy.Config{})
	if err != nil {
		b.Fatal(err)
	}
	app := kilobyte{make([]byte, 1<<10)}
	endpoint := e.State().Route.Endpoint
	plain := &reverseproxy.Handler{Upstreams: reverseproxy.UpstreamPool{{Dial: endpoint}}, TransportRaw: json.RawMessage(`{"protocol":"http"}`)}
	if err := plain.Provision(ctx); err != nil {
		b.Fatal(err)
	}
	plain.Transport.(*reverseproxy.HTTPTransport).Transport.RegisterProtocol("http", app)
	for _, c := range []struct {
		name, host, path, cookie, mode string
	}{
		{"host", gatewaytest.OneHost + ":8080", "/kilobyte", "theme=dark; " + site.WorkspaceCookie + "=" + own, site.HostURL},
		{"path", "localhost:8080", gatewaytest.OnePath + "/kilobyte", site.SessionCookie + "=" + token, site.PathURL},
	} {
		g := &Gateway{}
		options := productOptions(p)
		options.Sessions = a
		options.Identity = func(r *http.Request, at *site.Address) (auth.Grant, error) { return sessionIdentity(a, r, at) }
		if err := g.provision(ctx, settings.Addresses{WorkspaceURL: c.mode}, options); err != nil {
			b.Fatal(err)
		}
		g.proxy.(*reverseproxy.Handler).Transport.(*transport).Transport.RegisterProtocol("http", app)
		for name, handler := range map[string]caddyhttp.MiddlewareHandler{"gateway": g, "plain": plain} {
			b.Run(c.name+"/"+name, func(b *testing.B) {
				server := &caddyhttp.Server{}
				r := httptest.NewRequest(http.MethodGet, "http://"+c.host+c.path, http.NoBody)
				r.Header = http.Header{
					"User-Agent":     {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
					"Accept":         {"*/*"},
					"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Sec-Fetch-Site": {"same-origin"},
				}
				cookie := []string{c.cookie}
				w := &discard{header: http.Header{}}
				b.ReportAllocs()
				for b.Loop() {
					cookie[0] = c.cookie
					r.Header["Cookie"] = cookie
					clear(w.header)
					w.header["Server"] = []string{"Caddy"}
					sent := caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, server)
					if err := handler.ServeHTTP(w, sent, noNext); err != nil || len(w.header["Content-Length"]) == 0 {
						b.Fatal(err, w.header)
					}
				}
			})
		}
	}
}
