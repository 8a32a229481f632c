package codehub

//lint:file-ignore SA1019 the client of net/http refuses the field :protocol, which makes a CONNECT an extended one

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

// Open connections and streams end within a second after another process has ended their session, over every version of
// HTTP.
func TestRevocationClosesStreams(t *testing.T) {
	if os.Getenv("GODEBUG") != "http2xconnect=1" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRevocationClosesStreams$", "-test.count=1", "-test.v")
		again.Env = append(os.Environ(), extendedConnect)
		if out, err := again.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := startRevocable(t)
	for name, end := range map[string]func(t *testing.T, elsewhere *auth.Auth, token string) error{
		"sign-out": func(t *testing.T, elsewhere *auth.Auth, token string) error {
			return elsewhere.Logout(t.Context(), token)
		},
		"disabled user": func(t *testing.T, elsewhere *auth.Auth, _ string) error {
			return elsewhere.SetDisabled(t.Context(), "ann", true)
		},
		"changed password": func(t *testing.T, elsewhere *auth.Auth, _ string) error {
			return elsewhere.SetPassword(t.Context(), "ann", testPassword)
		},
		"revoked access token": nil,
	} {
		for _, protocol := range []string{"h1", "h2", "h3"} {
			t.Run(name+" "+protocol, func(t *testing.T) {
				wait.Quick(t, "closing everything", time.Second, func() time.Duration {
					if err := s.elsewhere.SetDisabled(t.Context(), "ann", false); err != nil {
						t.Fatal(err)
					}
					token, _, err := s.elsewhere.Login(t.Context(), "ann", testPassword, auth.Client{})
					if err != nil {
						t.Fatal(err)
					}
					credentials, end := http.Header{"Cookie": {"__Host-session=" + token}}, end
					if end == nil {
						credentials, end = s.accessToken(t, token)
					}
					streams := s.open(t, protocol, credentials)
					if err := end(t, s.elsewhere, token); err != nil {
						t.Fatal(err)
					}
					began := time.Now()
					waitForEnds(t, streams)
					return time.Since(began)
				})
			})
		}
	}
	if s.mu.Lock(); s.leaked {
		t.Error("the application got a cookie or an Authorization header")
	}
	s.mu.Unlock()
}

// accessToken makes an access token of the signed-in user, and returns its header and a function that revokes
// it.
func (s *revocable) accessToken(t *testing.T, session string) (
	http.Header, func(*testing.T, *auth.Auth, string) error,
) {
	t.Helper()
	g, err := s.elsewhere.Grant(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	made, secret, err := s.elsewhere.CreateToken(t.Context(), g, "x", []auth.Scope{auth.ScopeWorkspace}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return http.Header{"Authorization": {"Bearer " + secret}}, func(t *testing.T, elsewhere *auth.Auth, _ string) error {
		return elsewhere.RevokeToken(t.Context(), g.ID, made.ID)
	}
}

// revocable is a gateway whose sessions are in PostgreSQL. elsewhere gives access to the same sessions as another
// process would.
type revocable struct {
	*gatewayServer
	pool      *x509.CertPool // of the server's certificate
	elsewhere *auth.Auth

	mu    sync.Mutex
	ended map[string]chan struct{} // by the id of a request
	begun map[string]bool
	// leaked means that a request reached the application together with the credentials that let it in.
	leaked bool
}

func startRevocable(t *testing.T) *revocable {
	dsn := storetest.Migrated(t)
	connect := func() (*store.Store, *auth.Auth) {
		st, err := store.Open(dsn, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(st.Close)
		a := auth.New(accounts.New(st.DB), auth.Options{})
		t.Cleanup(a.Close)
		return st, a
	}
	st, here := connect()
	_, elsewhere := connect()
	user, err := here.AddUser(t.Context(), "ann", testPassword, auth.RoleUser)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	connected := make(chan struct{})
	go func() {
		_ = st.Listen(ctx, func() { close(connected) }, func(n postgres.Notification) { here.Revoked(n.SessionID) })
	}()
	<-connected
	underTest.Lock()
	underTest.identity = func(r *http.Request, at *site.Address) (auth.Grant, error) {
		return sessionIdentity(here, r, at)
	}
	underTest.token = func(r *http.Request, secret string) (auth.Grant, error) { return tokenGrant(here, r, secret) }
	underTest.Unlock()
	t.Cleanup(func() { underTest.Lock(); underTest.identity, underTest.token = nil, nil; underTest.Unlock() })
	s := &revocable{gatewayServer: startGateway(t, nil), elsewhere: elsewhere, ended: make(map[string]chan struct{}), begun: make(map[string]bool)}
	s.url = strings.Replace(s.url, "http:", "https:", 1)
	var settings map[string]any
	s.pool, settings = s.serveTLS(t)
	s.load(nil, settings)
	s.Run(gatewaytest.One, gatewaytest.App(t, s.serve))
	s.Change(gatewaytest.One, func(r *store.Route) { r.OwnerID = user.ID })
	return s
}

// serve is the application. Each request has its id in the query. When serve has ended such a request, it closes the
// channel in ended that belongs to the id.
func (s *revocable) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	id := r.URL.Query().Get("id")
	s.leaked = s.leaked || r.Header["Authorization"] != nil || r.Header["Cookie"] != nil
	ended := s.ended[id]
	s.begun[id] = true
	s.mu.Unlock()
	if ended == nil {
		return // the gateway asks whether it answers
	}
	defer close(ended)
	switch r.URL.Path {
	case "/websocket":
		serveWebSocket(w, r)
	case "/silence":
		serveSilence(w, r)
	case "/unanswered":
		<-r.Context().Done()
	case "/upload":
		_, _ = io.Copy(io.Discard, r.Body)
	case "/download":
		block := make([]byte, 1<<16)
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// serveWebSocket greets, and says nothing more.
func serveWebSocket(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	_ = c.Write(r.Context(), websocket.MessageText, []byte("hello"))
	_, _, _ = c.Read(r.Context())
}

// serveSilence is an event stream without events.
func serveSilence(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ": hello\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// serving reports whether a request has reached the application.
func (s *revocable) serving(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.begun[id]
}

// open opens one stream of every kind. It returns channels that are closed when a stream has ended on the client's side
// or on the application's side.
func (s *revocable) open(t *testing.T, protocol string, credentials http.Header) map[string]<-chan struct{} {
	t.Helper()
	transport := s.transport(t, protocol)
	streams := make(map[string]<-chan struct{})
	for _, kind := range []string{"websocket", "silence", "upload", "download", "unanswered"} {
		id := fmt.Sprint(protocol, kind, time.Now().UnixNano())
		application, client := make(chan struct{}), make(chan struct{})
		s.mu.Lock()
		s.ended[id] = application
		s.mu.Unlock()
		streams[kind+" of the application"] = application
		method, header, body := "GET", credentials.Clone(), io.ReadCloser(nil)
		if kind == "websocket" {
			header.Set("Sec-WebSocket-Version", "13")
			header.Set("Origin", s.url)
		}
		out, in := io.Pipe()
		t.Cleanup(func() { _ = in.Close() })
		switch {
		case kind == "websocket" && protocol == "h1":
			header["Upgrade"], header["Connection"] = []string{"websocket"}, []string{"Upgrade"}
			header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		case kind == "websocket":
			method, body = "CONNECT", out
			if protocol == "h2" {
				header[":protocol"] = []string{"websocket"}
			}
		case kind == "upload":
			method, body = "POST", out
			go func() { // net/http's client notices the end of a connection when it writes
				for block := make([]byte, 1<<16); ; {
					if _, err := in.Write(block); err != nil {
						return
					}
				}
			}()
		}
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+gatewaytest.OnePath+"/"+kind+"?id="+id, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header = header
		if protocol == "h3" && method == "CONNECT" {
			r.Proto = "websocket"
		}
		if kind == "unanswered" || kind == "upload" {
			go func() {
				defer close(client)
				if resp, err := transport.RoundTrip(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			wait.Until(t, "the application has the request", func() bool { return s.serving(id) })
			streams[kind+" of the client"] = client
			continue
		}
		resp, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		t.Cleanup(func() { _ = resp.Body.Close() })
		if resp.StatusCode > 200 || protocol == "h1" && kind == "websocket" && resp.StatusCode != 101 {
			t.Fatalf("%s: %s", kind, resp.Status)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 5)); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if kind == "download" {
			continue // the client takes nothing more
		}
		streams[kind+" of the client"] = client
		go func() {
			_, _ = io.Copy(io.Discard, resp.Body)
			close(client)
		}()
	}
	return streams
}

// transport is a client of one version of HTTP.
func (s *revocable) transport(t *testing.T, protocol string) http.RoundTripper {
	config := &tls.Config{RootCAs: s.pool, ServerName: "localhost"}
	switch protocol {
	case "h1":
		h1 := &http.Transport{TLSClientConfig: config}
		t.Cleanup(h1.CloseIdleConnections)
		return h1
	case "h2":
		h2 := &http2.Transport{TLSClientConfig: config}
		t.Cleanup(h2.CloseIdleConnections)
		return h2
	}
	h3 := &http3.Transport{TLSClientConfig: config}
	t.Cleanup(func() { _ = h3.Close() })
	return h3
}
