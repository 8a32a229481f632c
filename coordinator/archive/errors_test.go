package archive_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
)

// transport answers instead of a store.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// instead returns the transport in the form of the store's option.
func (f transport) instead(http.RoundTripper) http.RoundTripper { return f }

// respond answers with a status and a body.
func respond(status int, body string) transport {
	return func(r *http.Request) (*http.Response, error) {
		header := http.Header{"Content-Type": {"application/xml"}}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
}

// code returns the body of an answer with an error code.
func code(c string) string {
	return "<?xml version=\"1.0\"?><Error><Code>" + c + "</Code><Message>m</Message></Error>"
}

// fails returns a transport that does not answer.
func fails(err error) transport {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// answeredBy returns a store behind a transport.
func answeredBy(t *testing.T, f transport) *archive.Store {
	t.Helper()
	return open(t, archive.Options{Endpoint: "http://store.invalid", Bucket: "bucket", AccessKey: "a", SecretKey: "b", PathStyle: true, Transport: f.instead})
}

// call is a call of one of the store's methods.
type call func(context.Context, *archive.Store) error

var calls = map[string]call{
	"Stat":        func(ctx context.Context, s *archive.Store) error { _, err := s.Stat(ctx, key); return err },
	"CreateEmpty": func(ctx context.Context, s *archive.Store) error { return s.CreateEmpty(ctx, key) },
	"List": func(ctx context.Context, s *archive.Store) error {
		return s.List(ctx, func([]archive.Object) error { return nil })
	},
	"Versions": func(ctx context.Context, s *archive.Store) error {
		_, err := s.Versions(ctx, workspace.ID(key[:36]))
		return err
	},
	"Delete":      func(ctx context.Context, s *archive.Store) error { _, err := s.Delete(ctx, []string{key}); return err },
	"ReadMarker":  func(ctx context.Context, s *archive.Store) error { _, err := s.ReadMarker(ctx); return err },
	"WriteMarker": func(ctx context.Context, s *archive.Store) error { return s.WriteMarker(ctx, []byte("x"), "") },
	"ListUploads": func(ctx context.Context, s *archive.Store) error {
		return s.ListUploads(ctx, func([]archive.Upload) error { return nil })
	},
	"AbortUpload": func(ctx context.Context, s *archive.Store) error {
		return s.AbortUpload(ctx, archive.Upload{Key: key, ID: "i"})
	},
	"EnsureBucket": func(ctx context.Context, s *archive.Store) error { return s.EnsureBucket(ctx) },
}

// bubble runs a subtest in synthetic time.
func bubble(t *testing.T, name string, f func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// TestWhatIsAwayAndWhatRefuses: every method must report that a store is away if it is away, and only then.
func TestWhatIsAwayAndWhatRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer transport
		away   bool
		says   string // of a refusal
	}{
		{name: "no connection", answer: fails(errors.New("dial tcp: connection refused")), away: true},
		{name: "cut off", answer: fails(io.ErrUnexpectedEOF), away: true},
		{name: "500", answer: respond(500, code("InternalError")), away: true},
		{name: "503", answer: respond(503, code("ServiceUnavailable")), away: true},
		{name: "504 of a proxy", answer: respond(504, "<html>gateway timeout</html>"), away: true},
		{name: "throttled", answer: respond(503, code("SlowDown")), away: true},
		{name: "throttled, with another status", answer: respond(400, code("SlowDown")), away: true},
		{name: "too many requests", answer: respond(429, ""), away: true},
		{name: "access denied", answer: respond(403, code("AccessDenied")), says: "access_key"},
		{name: "a wrong key", answer: respond(403, code("SignatureDoesNotMatch")), says: "secret_key"},
		{name: "unauthorized", answer: respond(401, ""), says: "access_key"},
		{name: "a wrong region", answer: respond(301, code("PermanentRedirect")), says: "region"},
		{name: "a bad request", answer: respond(400, code("InvalidRequest")), says: "endpoint"},
	} {
		// The pauses between retries are not real time.
		bubble(t, c.name, func(t *testing.T) {
			s := answeredBy(t, c.answer)
			for name, ask := range calls {
				ctx, cancel := context.WithCancel(t.Context())
				err := ask(ctx, s)
				cancel()
				if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, archive.ErrMarkerChanged) {
					t.Errorf("%s returns %v", name, err)
					continue
				}
				if away := workspace.ReasonOf(err) == workspace.ReasonUnreachable; away != c.away || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s returns %v; away: %v", name, err, away)
				}
			}
		})
	}
}

func TestClocksThatDifferAreNamed(t *testing.T) {
	// The SDK corrects its clock by the answer's date, and retries.
	err := calls["ReadMarker"](t.Context(), answeredBy(t, respond(403, code("RequestTimeTooSkewed"))))
	if err == nil || !strings.Contains(err.Error(), "clocks") {
		t.Errorf("got %v", err)
	}
}

// TestAnAnswerThatIsNoStoresIsARefusal: a proxy or a web server answers at the endpoint instead of a store.
func TestAnAnswerThatIsNoStoresIsARefusal(t *testing.T) {
	s := answeredBy(t, respond(200, "<html><p>It works!"))
	for _, name := range []string{"List", "Versions", "Delete", "ListUploads"} {
		err := calls[name](t.Context(), s)
		if err == nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable || !strings.Contains(err.Error(), "check s3 endpoint") {
			t.Errorf("%s returns %v", name, err)
		}
	}
	s = answeredBy(t, respond(404, "<html>Not found"))
	for name, ask := range calls {
		if name == "Stat" || name == "CreateEmpty" || name == "ReadMarker" {
			if err := ask(t.Context(), s); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "check s3 endpoint") {
				t.Errorf("%s returns %v", name, err)
			}
		}
	}
}

func TestAWrongCertificateIsARefusal(t *testing.T) {
	store := httptest.NewTLSServer(http.NotFoundHandler())
	defer store.Close()
	store.Config.ErrorLog = nil
	for endpoint, says := range map[string]string{
		store.URL: "certificate",
		"https" + strings.TrimPrefix(plain(t), "http"): "http and https",
	} {
		s := open(t, archive.Options{Endpoint: endpoint, Bucket: "bucket", AccessKey: "a", SecretKey: "b", PathStyle: true})
		_, err := s.ReadMarker(t.Context())
		if err == nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// plain returns the address of a server without TLS.
func plain(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.URL
}

func TestAStoreThatNeverAnswersIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answeredBy(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		if _, err := s.Stat(t.Context(), key); workspace.ReasonOf(err) != workspace.ReasonUnreachable || time.Since(began) > 3*time.Minute {
			t.Errorf("Stat returns %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Stat(ctx, key); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
			t.Errorf("with a shorter time of the caller's, Stat returns %v", err)
		}
	})
}

func TestACallerThatGivesUpLearnsNothingOfTheStore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := answeredBy(t, func(r *http.Request) (*http.Response, error) {
		cancel()
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	_, err := s.Stat(ctx, key)
	if !errors.Is(err, context.Canceled) || workspace.ReasonOf(err) == workspace.ReasonUnreachable || strings.Contains(err.Error(), "refuses") {
		t.Errorf("Stat returns %v", err)
	}
}

// TestReadingAMarkerIsBounded uses an answer that breaks off, and one that never ends.
func TestReadingAMarkerIsBounded(t *testing.T) {
	broken := func(then error) (*archive.Store, *atomic.Int64) {
		var read atomic.Int64
		return answeredBy(t, func(r *http.Request) (*http.Response, error) {
			body := io.Reader(endless{&read, then})
			if r.Method == http.MethodHead {
				body = http.NoBody
			}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(body)}, nil
		}), &read
	}
	s, _ := broken(io.ErrUnexpectedEOF)
	for _, name := range []string{"Stat", "ReadMarker"} {
		if err := calls[name](t.Context(), s); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
			t.Errorf("%s returns %v", name, err)
		}
	}
	s, read := broken(nil)
	if err := calls["Stat"](t.Context(), s); workspace.ReasonOf(err) != workspace.ReasonArchiveCorrupted {
		t.Errorf("Stat returns %v", err)
	}
	if m, err := s.ReadMarker(t.Context()); err != nil || len(m.Content) != 4096 {
		t.Errorf("ReadMarker returns %d bytes, %v", len(m.Content), err)
	}
	if n := read.Load(); n > 64<<10 {
		t.Errorf("%d bytes were read", n)
	}
}

// endless is a body that never ends, or ends with an error.
type endless struct {
	read *atomic.Int64
	err  error
}

func (e endless) Read(p []byte) (int, error) {
	if e.read.Add(int64(len(p))) > 10 && e.err != nil {
		return 0, e.err
	}
	return len(p), nil
}

func TestATransportSeesEveryRequestOfARealStore(t *testing.T) {
	var seen atomic.Int32
	o := options(devenv.S3(t))
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			seen.Add(1)
			return next.RoundTrip(r)
		})
	}
	s := open(t, o)
	if err := s.CreateEmpty(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if n := seen.Load(); n != 3 { // the marker, the archive, and the marker again
		t.Errorf("%d requests were seen", n)
	}
	// Redirects are followed as without the transport: only those that keep the method.
	for status, want := range map[int]bool{http.StatusTemporaryRedirect: true, http.StatusFound: false} {
		moved := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, o.Endpoint+r.URL.RequestURI(), status)
		}))
		before := seen.Load()
		elsewhere := o
		elsewhere.Endpoint = moved.URL
		_, err := open(t, elsewhere).ReadMarker(t.Context())
		if followed := seen.Load()-before > 1; followed != want || err == nil {
			t.Errorf("%d: followed %v, %v", status, followed, err)
		}
		moved.Close()
	}
}

func ExampleErrNoBucket() {
	fmt.Println(archive.ErrNoBucket)
	// Output: the object store has no such bucket: check the setting s3 bucket, and whether the store's data folder is mounted
}
