package codehub

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// TestGRPCReachesItsApplicationOverHTTP2 also checks that the trailers follow the answer. Other requests reach
// applications over HTTP/1.
func TestGRPCReachesItsApplicationOverHTTP2(t *testing.T) {
	s := startGateway(t, nil)
	s.load(nil, map[string]any{"protocols": []string{"h1", "h2c"}})
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Grpc-Status")
		w.Header().Set("X-Proto", r.Proto)
		_, _ = io.Copy(w, r.Body)
		w.Header().Set("Grpc-Status", "0")
	}))
	app.Config.Protocols = new(http.Protocols)
	app.Config.Protocols.SetHTTP1(true)
	app.Config.Protocols.SetUnencryptedHTTP2(true)
	app.Start()
	t.Cleanup(app.Close)
	s.Run(gatewaytest.One, app)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for kind, want := range map[string]string{"application/grpc": "HTTP/2.0", "application/grpc+proto": "HTTP/2.0", "application/grpc-web": "HTTP/1.1", "text/plain": "HTTP/1.1"} {
		r := gatewaytest.NewRequest("POST", s.url+gatewaytest.OnePath+"/a.B/C", gatewaytest.UserHeader+": alice", "Content-Type: "+kind, "Te: trailers")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("call")), -1
		resp, err := transport.RoundTrip(r.WithContext(t.Context()))
		if err != nil {
			t.Fatal(kind, err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || string(got) != "call" || resp.Header.Get("X-Proto") != want || resp.Trailer.Get("Grpc-Status") != "0" {
			t.Errorf("%s: %s %q %v, trailer %v: %v", kind, resp.Status, got, resp.Header, resp.Trailer, err)
		}
	}
}
