package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is how a server in front of the real one behaves.
type fault string

const (
	healthy    fault = ""
	fails      fault = "fails"       // answers 500
	refuses    fault = "refuses"     // answers 403
	silent     fault = "silent"      // takes the request and never answers
	slow       fault = "slow"        // answers after a second
	wrongBytes fault = "wrong bytes" // answers with other archives of the same length
	gone       fault = "gone"        // closes the connection
)

// faultyStore is the object store behind a proxy that can be made to fail.
type faultyStore struct {
	mu       sync.Mutex
	fault    fault
	released chan struct{} // closed when a silent request may end
	server   *httptest.Server
}

// inFront puts a proxy in front of the server at target.
func inFront(t testing.TB, target string) *faultyStore {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &faultyStore{released: make(chan struct{})}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		host := r.In.Host // signed
		r.SetURL(u)
		r.Out.Host = host
	}, ModifyResponse: f.corrupt}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		now, released := f.fault, f.released
		f.mu.Unlock()
		switch now {
		case fails:
			http.Error(w, "<Error><Code>InternalError</Code></Error>", http.StatusInternalServerError)
			return
		case refuses:
			http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
			return
		case silent:
			select {
			case <-released:
			case <-r.Context().Done():
			}
			return
		case slow:
			select {
			case <-time.After(time.Second):
			case <-released:
			}
		case gone:
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { f.set(healthy); f.server.Close() })
	return f
}

// set changes the behaviour from the next request on, and ends those that hang.
func (f *faultyStore) set(now fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = now
	close(f.released)
	f.released = make(chan struct{})
}

// corrupt changes the content of an object on its way.
func (f *faultyStore) corrupt(res *http.Response) error {
	f.mu.Lock()
	now := f.fault
	f.mu.Unlock()
	if now != wrongBytes || res.Request.Method != http.MethodGet || !strings.HasSuffix(res.Request.URL.Path, ".zst") || res.ContentLength <= 0 {
		return nil
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	for i := range data {
		data[i] ^= 0x55
	}
	res.Body = io.NopCloser(bytes.NewReader(data))
	return nil
}
