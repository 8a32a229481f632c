package cluster

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// forwarding starts a proxy that connects a client with that password to any address.
func forwarding(t *testing.T, password string) (at *url.URL, connections *atomic.Int64) {
	t.Helper()
	connections = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks := &http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
		if _, p, _ := asks.BasicAuth(); r.Method != http.MethodConnect || p != password {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		connections.Add(1)
		to, err := net.Dial("tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		from, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(from, "HTTP/1.1 200 OK\r\n\r\n")
		go func() { _, _ = io.Copy(to, from); to.Close() }()
		_, _ = io.Copy(from, to)
		from.Close()
	}))
	t.Cleanup(s.Close)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("u", "right")
	return at, connections
}

func TestProxy(t *testing.T) {
	f := newFake(t, "A")
	list := func(password string) (int64, error) {
		t.Helper()
		at, connections := forwarding(t, password)
		s, err := f.options().load()
		if err != nil {
			t.Fatal(err)
		}
		s.Proxy = http.ProxyURL(at)
		c, err := connect(s, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, err = c.Pods.List(t.Context(), metav1.ListOptions{})
		return connections.Load(), err
	}
	if n, err := list("right"); err != nil || n != 1 {
		t.Errorf("%v, %d connections through the proxy", err, n)
	}
	n, err := list("another")
	if err == nil || n != 0 || !strings.Contains(err.Error(), "407") || strings.Contains(err.Error(), "right") {
		t.Errorf("%v, %d connections through the proxy", err, n)
	}
}

func TestUnknownProxy(t *testing.T) {
	_, err := through(nil, http.ProxyURL(&url.URL{Scheme: "gopher", Host: "x", User: url.UserPassword("u", "secret")}), &url.URL{Scheme: "https", Host: "y"})
	if err == nil || !strings.Contains(err.Error(), "gopher") || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}
