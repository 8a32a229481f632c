package gateway

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestTheAuditNamesWhoseOpenConnectionWakes a workspace: the user, and the sign-in or the token that let the connection in before
// the workspace dozed.
func TestTheAuditNamesWhoseOpenConnectionWakes(t *testing.T) {
	a := auth.New(accounts.New(storetest.Open(t).DB), auth.Options{})
	t.Cleanup(a.Close)
	alice, err := a.AddUser(t.Context(), "alice", "correct horse battery", auth.RoleUser)
	if err != nil {
		t.Fatal(err)
	}
	session, _, err := a.Login(t.Context(), "alice", "correct horse battery", auth.Client{})
	if err != nil {
		t.Fatal(err)
	}
	signedIn, err := a.Grant(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	made, secret, err := a.CreateToken(t.Context(), signedIn, "build", []auth.Scope{auth.ScopeWorkspace}, 1)
	if err != nil {
		t.Fatal(err)
	}
	byToken := "Authorization: Bearer " + secret
	// Each of these functions opens a connection, and returns a function that sends something on it.
	ways := map[string]func(h *harness, line string) (send func()){
		"a WebSocket": func(h *harness, line string) func() {
			header := gatewaytest.NewRequest("GET", "/", line).Header
			c, _, err := websocket.Dial(h.t.Context(), h.url+onePath+"/ws", &websocket.DialOptions{HTTPHeader: header})
			if err != nil {
				h.t.Fatal(err)
			}
			h.t.Cleanup(func() { _ = c.CloseNow() })
			return func() { _ = c.Write(h.t.Context(), websocket.MessageText, []byte("silence")) }
		},
		"an upload": func(h *harness, line string) func() {
			body, to := io.Pipe()
			r := gatewaytest.NewRequest("POST", h.url+onePath+"/upload", line, asProgram)
			r.Body, r.ContentLength = body, -1
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				if resp, err := client.Do(r); err == nil {
					_ = resp.Body.Close()
				}
			}()
			h.t.Cleanup(func() { _ = to.Close(); <-ended })
			_, _ = to.Write([]byte("begins"))
			return func() { _, _ = to.Write([]byte("goes on")) }
		},
		"an event stream": func(h *harness, line string) func() {
			resp, err := client.Do(gatewaytest.NewRequest("GET", h.url+onePath+"/events", line, asProgram))
			if err != nil {
				h.t.Fatal(err)
			}
			h.t.Cleanup(func() { _ = resp.Body.Close() })
			return func() { h.events <- struct{}{} }
		},
	}
	for way, open := range ways {
		for by, line := range map[string]string{"a sign-in": asAlice, "a token": byToken} {
			t.Run(way+" by "+by, func(t *testing.T) {
				h := newHarness(t, func(o *Options) {
					o.Identity = func(*http.Request, *site.Address) (auth.Grant, error) { return signedIn, nil }
					o.Token = func(r *http.Request, secret string) (auth.Grant, error) {
						return a.Token(r.Context(), secret, auth.ScopeWorkspace, "")
					}
					o.ClientAddress = func(*http.Request) string { return "192.0.2.7" }
					o.Client = func(*http.Request) audit.Actor {
						return audit.Actor{Kind: audit.Anonymous, Address: "192.0.2.7", Request: "r1"}
					}
				})
				h.events = make(chan struct{})
				arrived := make(chan struct{}, 1)
				h.Change(one, func(r *store.Route) { r.OwnerID = alice.ID })
				h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) { askerApp(h, arrived, w, r) }))
				h.get(200, onePath+"/", line, asProgram)
				send := open(h, line)
				<-arrived
				h.Used(one) // a minute passes
				h.doze()
				wait.Until(t, "what is sent has it go on", func() bool { send(); return !h.dozing() })
				want := audit.Actor{Kind: audit.User, ID: alice.ID, Through: audit.Page, Address: "192.0.2.7"}
				if line == byToken {
					want.Through, want.TokenID = audit.Token, made.ID
				}
				if way == "a WebSocket" {
					want.Request = "r1"
				}
				if got := h.Asker(); got != want {
					t.Errorf("the audit names %+v, want %+v", got, want)
				}
			})
		}
	}
}

// askerApp is the application: it accepts WebSockets and uploads, and sends an event when the test wants one.
func askerApp(h *harness, arrived chan<- struct{}, w http.ResponseWriter, r *http.Request) {
	reached := func() {
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
	switch r.URL.Path {
	case "/ws":
		if c, err := websocket.Accept(w, r, nil); err == nil {
			reached()
			for err == nil {
				_, _, err = c.Read(context.WithoutCancel(r.Context()))
			}
		}
	case "/upload":
		part := make([]byte, 64)
		for {
			if _, err := r.Body.Read(part); err != nil {
				return
			}
			reached()
		}
	case "/events":
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		reached()
		for {
			select {
			case <-h.events:
				_, _ = io.WriteString(w, "data: x\n\n")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
}
