// Package faulty holds servers that fail on demand: proxies in front of the real ones. They test how the product
// reacts. Only tests may import it.
package faulty

import (
	"bytes"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is how a server in front of the real one behaves.
type Fault string

// The faults of a store.
const (
	Healthy    Fault = ""
	Fails      Fault = "fails"       // answers 500
	Refuses    Fault = "refuses"     // answers 403
	Silent     Fault = "silent"      // takes the request and never answers
	Slow       Fault = "slow"        // answers after a second
	WrongBytes Fault = "wrong bytes" // answers with another content of the same length
	// WrongArchives does the same, but only to archives, not to their commit markers.
	WrongArchives Fault = "wrong archives"
	Gone          Fault = "gone" // closes the connection
	// EqualParts refuses to complete an upload whose parts differ in size.
	EqualParts Fault = "equal parts"
)

// Store is the object store behind a proxy that can be made to fail.
type Store struct {
	mu       sync.Mutex
	fault    Fault
	released chan struct{} // closed when a silent request may end
	passing  int64         // how much of each archive passes; see Hold
	more     chan struct{} // closed when passing grows
	parts    parts
	server   *httptest.Server
}

// NewStore puts a proxy in front of the server at target, at the same address of this machine.
func NewStore(t testing.TB, target string) *Store {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	f := &Store{released: make(chan struct{}), more: make(chan struct{}), passing: math.MaxInt64,
		parts: parts{sizes: make(map[string]map[string]int64)}}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		host := r.In.Host // signed
		r.SetURL(u)
		r.Out.Host = host
	}, ModifyResponse: f.corrupt, FlushInterval: -1}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		now, released := f.fault, f.released
		f.mu.Unlock()
		switch now {
		case Fails:
			http.Error(w, "<Error><Code>InternalError</Code></Error>", http.StatusInternalServerError)
			return
		case Refuses:
			http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
			return
		case Silent:
			select {
			case <-released:
			case <-r.Context().Done():
			}
			return
		case Slow:
			select {
			case <-time.After(time.Second):
			case <-released:
			}
		case Gone:
			panic(http.ErrAbortHandler)
		case EqualParts:
			if f.parts.refuses(r) {
				http.Error(w, "<Error><Code>InvalidPart</Code><Message>All non-trailing parts must have the same length.</Message></Error>",
					http.StatusBadRequest)
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	f.server.Listener.Close()
	if f.server.Listener, err = net.Listen("tcp", net.JoinHostPort(u.Hostname(), "0")); err != nil {
		t.Fatal(err)
	}
	f.server.Start()
	t.Cleanup(func() { f.Set(Healthy); f.Release(); f.server.Close() })
	return f
}

// Set changes the behaviour from the next request on, and ends the requests that hang.
func (f *Store) Set(now Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = now
	close(f.released)
	f.released = make(chan struct{})
}

// Hold lets only the given number of bytes of each downloaded archive pass, until it is called with a larger number, or
// until [Store.Release].
func (f *Store) Hold(after int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passing = after
	close(f.more)
	f.more = make(chan struct{})
}

// Release ends [Store.Hold].
func (f *Store) Release() { f.Hold(math.MaxInt64) }

// held is an archive of which only the first bytes pass.
type held struct {
	io.ReadCloser
	of     *Store
	done   <-chan struct{} // closed when the reader has gone
	passed int64
}

// Read implements io.Reader.
func (h *held) Read(p []byte) (int, error) {
	for {
		h.of.mu.Lock()
		room, more := h.of.passing-h.passed, h.of.more
		h.of.mu.Unlock()
		if room > 0 {
			n, err := h.ReadCloser.Read(p[:min(int64(len(p)), room)])
			h.passed += int64(n)
			return n, err
		}
		select {
		case <-more:
		case <-h.done:
			return 0, io.ErrClosedPipe
		}
	}
}

// URL is the proxy's address.
func (f *Store) URL() string { return f.server.URL }

// corrupt holds or changes the content of a downloaded object.
func (f *Store) corrupt(res *http.Response) error {
	f.mu.Lock()
	now := f.fault
	f.mu.Unlock()
	archive := strings.HasSuffix(res.Request.URL.Path, ".zst")
	if archive && res.Request.Method == http.MethodGet {
		res.Body = &held{ReadCloser: res.Body, of: f, done: res.Request.Context().Done()}
	}
	if now != WrongBytes && (now != WrongArchives || !archive) || res.Request.Method != http.MethodGet ||
		res.ContentLength <= 0 {
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
