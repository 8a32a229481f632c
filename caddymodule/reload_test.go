package codehub

//lint:file-ignore SA1019 the client of net/http refuses the field :protocol, which makes a CONNECT an extended one

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// sockets is how many WebSockets TestReloadsKeepAThousandWebSockets opens.
const sockets = 1000

// TestReloadsKeepAThousandWebSockets opens WebSockets over HTTP/1.1, 2 and 3, reloads the
// configuration five times, and uses every one of them after each reload. Like
// TestWebSocketOverHTTP2 it needs a process of its own.
func TestReloadsKeepAThousandWebSockets(t *testing.T) {
	if os.Getenv("GODEBUG") != "http2xconnect=1" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		again.Env = append(os.Environ(), extendedConnect)
		if out, err := again.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	s := startGateway(t, nil)
	pool, server := s.serveTLS(t)
	s.load(nil, server)
	s.Run(gatewaytest.One, gatewaytest.EchoWebSocket(t, nil))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	config := &tls.Config{RootCAs: pool, ServerName: "localhost"}
	opened := make([]io.ReadWriter, sockets)
	open := []func() (io.ReadWriter, error){s.openHTTP1(ctx, t, config), s.openHTTP2(ctx, t, config), s.openHTTP3(ctx, t, config)}
	for i := range opened {
		var err error
		if opened[i], err = open[i%len(open)](); err != nil {
			t.Fatalf("WebSocket %d over HTTP/%d: %v", i, i%len(open)+1, err)
		}
	}
	for reload := range 5 {
		s.load(map[string]any{"wake_timeout": fmt.Sprintf("%dm", reload+2)}, server)
		var dead atomic.Int64
		var group sync.WaitGroup
		for i, socket := range opened {
			group.Go(func() {
				message := fmt.Sprintf("%04d/%d", i, reload)
				if got, err := echo(socket, message); err != nil || got != message {
					if dead.Add(1) <= 3 {
						t.Errorf("after reload %d, WebSocket %d over HTTP/%d: %q, %v", reload+1, i, i%len(open)+1, got, err)
					}
				}
			})
		}
		group.Wait()
		if n := dead.Load(); n > 0 {
			t.Fatalf("after reload %d, %d of %d WebSockets are dead", reload+1, n, sockets)
		}
	}
}

// echo sends a short message and returns the answer's payload.
func echo(socket io.ReadWriter, message string) (string, error) {
	if _, err := socket.Write(masked(2, message)); err != nil {
		return "", err
	}
	got := make([]byte, 2+len(message))
	_, err := io.ReadFull(socket, got)
	return string(got[2:]), err
}

// TestReloadBreaksNoConnection opens a new connection for each request while the configuration is
// reloaded again and again. Both configurations share the listening socket, as with systemd's
// socket activation. If each configuration opens its own socket, the kernel resets connections that
// are still queued (see docs/upgrade.md).
func TestReloadBreaksNoConnection(t *testing.T) {
	s := startGateway(t, nil)
	url, listen := sharedSocket(t)
	s.url = url
	shared := map[string]any{"listen": []string{listen}}
	s.load(nil, shared)
	s.Run(gatewaytest.One, gatewaytest.Echo(t))
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var requests, failed atomic.Int64
	for range 8 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				requests.Add(1)
				if err := s.request(); err != nil {
					if failed.Add(1) <= 3 {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 20 {
		for before := requests.Load(); requests.Load() < before+25; {
			select {
			case <-t.Context().Done():
				t.Fatal("the requests make no progress")
			case <-time.After(time.Millisecond):
			}
		}
		s.load(map[string]any{"wake_timeout": fmt.Sprintf("%dm", i+2)}, shared)
	}
	close(stop)
	clients.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of %d requests failed during 20 reloads", n, requests.Load())
	}
}

// request makes one request over a connection of its own.
func (s *gatewayServer) request() error {
	r, err := http.NewRequest(http.MethodGet, s.url+gatewaytest.OnePath+"/", nil)
	if err != nil {
		return err
	}
	r.Header.Set(gatewaytest.UserHeader, "alice")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// serveTLS creates a certificate for localhost. It returns a pool with the certificate, and the settings of a server
// that uses the certificate for HTTP/1.1, 2 and 3.
func (s *gatewayServer) serveTLS(t *testing.T) (*x509.CertPool, map[string]any) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	s.apps = map[string]any{"tls": map[string]any{"certificates": map[string]any{"load_pem": []any{map[string]any{
		"certificate": string(certificate), "key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}}}}}
	s.storage = map[string]any{"module": "file_system", "root": t.TempDir()}
	return pool, map[string]any{"protocols": []string{"h1", "h2", "h3"}, "tls_connection_policies": []any{map[string]any{}}}
}

func (s *gatewayServer) origin() string { return "https://localhost" + s.url[len("http://127.0.0.1"):] }

// openHTTP1 returns a function that opens a WebSocket over a connection of its own.
func (s *gatewayServer) openHTTP1(ctx context.Context, t *testing.T, config *tls.Config) func() (io.ReadWriter, error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	return func() (io.ReadWriter, error) {
		c, _, err := websocket.Dial(ctx, s.origin()+gatewaytest.OnePath+"/ws", &websocket.DialOptions{
			HTTPClient: client, HTTPHeader: http.Header{gatewaytest.UserHeader: {"alice"}},
		})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { _ = c.CloseNow() })
		return &messages{ctx: ctx, conn: c}, nil
	}
}

// messages lets a test read and write a WebSocket over HTTP/1.1 as frames, like the WebSockets over HTTP/2 and 3.
type messages struct {
	ctx  context.Context
	conn *websocket.Conn
	rest []byte
}

func (m *messages) Write(frame []byte) (int, error) {
	return len(frame), m.conn.Write(m.ctx, websocket.MessageBinary, frame[6:])
}

func (m *messages) Read(p []byte) (int, error) {
	if len(m.rest) == 0 {
		_, payload, err := m.conn.Read(m.ctx)
		if err != nil {
			return 0, err
		}
		m.rest = append([]byte{0x82, byte(len(payload))}, payload...)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// stream is both directions of an extended CONNECT.
type stream struct {
	io.Reader
	io.Writer
}

// connect opens a WebSocket through an extended CONNECT.
func (s *gatewayServer) connect(ctx context.Context, t *testing.T, transport http.RoundTripper, mark func(*http.Request)) (io.ReadWriter, error) {
	out, in := io.Pipe()
	r, err := http.NewRequestWithContext(ctx, http.MethodConnect, s.origin()+gatewaytest.OnePath+"/ws", out)
	if err != nil {
		return nil, err
	}
	r.Header = http.Header{gatewaytest.UserHeader: {"alice"}, "Sec-Websocket-Version": {"13"}}
	r.ContentLength = -1
	mark(r)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = in.Close(); _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return stream{resp.Body, in}, nil
}

// openHTTP2 returns a function that opens a WebSocket over HTTP/2. A connection takes at
// most 250 streams.
func (s *gatewayServer) openHTTP2(ctx context.Context, t *testing.T, config *tls.Config) func() (io.ReadWriter, error) {
	var transport *http2.Transport
	opened := 0
	return func() (io.ReadWriter, error) {
		if opened%200 == 0 {
			transport = &http2.Transport{TLSClientConfig: config}
			t.Cleanup(transport.CloseIdleConnections)
		}
		opened++
		return s.connect(ctx, t, transport, func(r *http.Request) { r.Header[":protocol"] = []string{"websocket"} })
	}
}

// openHTTP3 returns a function that opens a WebSocket over HTTP/3. A connection takes at
// most 100 streams.
func (s *gatewayServer) openHTTP3(ctx context.Context, t *testing.T, config *tls.Config) func() (io.ReadWriter, error) {
	var transport *http3.Transport
	opened := 0
	return func() (io.ReadWriter, error) {
		if opened%80 == 0 {
			transport = &http3.Transport{TLSClientConfig: config, QUICConfig: &quic.Config{KeepAlivePeriod: 10 * time.Second}}
			t.Cleanup(func() { _ = transport.Close() })
		}
		opened++
		return s.connect(ctx, t, transport, func(r *http.Request) { r.Proto = "websocket" })
	}
}

// sharedSocket opens a socket that listens for all configurations. It returns its URL and its name in a configuration.
func sharedSocket(t *testing.T) (url, listen string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return "http://" + l.Addr().String(), fmt.Sprintf("fd/%d", file.Fd())
}
