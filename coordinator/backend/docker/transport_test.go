package docker_test

import (
	"io"
	"net/http"
	"strings"
	"sync"
)

// roundTripper is a function that serves as a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// faults make a transport do something other than pass requests on. They can change at any time.
type faults struct {
	mu   sync.Mutex
	list []*fault
}

// fault answers the requests that it applies to. For all others it returns nil, nil.
type fault struct {
	answer func(*http.Request) (*http.Response, error)
}

// add adds a fault until the returned function is called.
func (f *faults) add(answer func(*http.Request) (*http.Response, error)) (remove func()) {
	one := &fault{answer}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, one)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, other := range f.list {
			if other == one {
				f.list = append(f.list[:i:i], f.list[i+1:]...)
				return
			}
		}
	}
}

// wrap is for docker.Options.Transport.
func (f *faults) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		list := f.list
		f.mu.Unlock()
		for _, one := range list {
			if resp, err := one.answer(r); resp != nil || err != nil {
				return resp, err
			}
		}
		return next.RoundTrip(r)
	})
}

// failing returns an engine's error for requests whose method and path match.
func failing(method, path string, status int, message string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.Method != method || !strings.Contains(r.URL.Path, path) {
			return nil, nil
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Request: r, ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"message":"` + message + `"}`))}, nil
	}
}
