package archive_test

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
)

// through returns the store's options with a transport in between. The function answer answers a request itself, or
// returns nil to let the request through.
func through(o archive.Options, answer func(*http.Request) (*http.Response, error)) archive.Options {
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if response, err := answer(r); response != nil || err != nil {
				return response, err
			}
			return next.RoundTrip(r)
		})
	}
	return o
}

// TestTheCheckTellsFailuresApart: each way in which a store can fail has its own text, which says what to change.
func TestTheCheckTellsFailuresApart(t *testing.T) {
	store := options(devenv.S3(t))
	changed := func(change func(*archive.Options)) archive.Options {
		o := store
		change(&o)
		return o
	}
	denied := func(method, query string) archive.Options {
		return through(store, func(r *http.Request) (*http.Response, error) {
			if r.Method == method && strings.Contains(r.URL.RawQuery, query) && strings.Contains(r.URL.Path+r.URL.RawQuery, "codehub-check") {
				return respond(403, code("AccessDenied"))(r)
			}
			return nil, nil
		})
	}
	skewed := func(r *http.Request) (*http.Response, error) {
		response, err := respond(403, code("AccessDenied"))(r)
		response.Header.Set("Date", time.Now().Add(-40*time.Minute).UTC().Format(http.TimeFormat))
		return response, err
	}
	dns := &net.DNSError{Err: "no such host", Name: "bucket.store", IsNotFound: true}
	for name, c := range map[string]struct {
		options      archive.Options
		text, remedy string
	}{
		"no bucket":         {changed(func(o *archive.Options) { o.Bucket += "-missing" }), "has no bucket", "path_style"},
		"a wrong secret":    {changed(func(o *archive.Options) { o.SecretKey += "x" }), "SignatureDoesNotMatch", "s3 access_key and secret_key"},
		"a wrong region":    {changed(func(o *archive.Options) { o.Region = "eu-west-1" }), "eu-west-1", "s3 region"},
		"not reachable":     {changed(func(o *archive.Options) { o.Endpoint = "http://127.0.0.1:1" }), "is away", "check s3 endpoint"},
		"no such host":      {through(store, fails(dns)), "is away", "set s3 path_style true"},
		"not the way":       {through(store, respond(403, code("SecondLevelDomainForbidden"))), "refuses", "set s3 path_style false"},
		"a clock":           {through(store, skewed), "differs from the store's by 40 minutes", "NTP"},
		"no right to list":  {denied(http.MethodGet, "list-type"), "listing archives", "s3:ListBucket"},
		"no right to write": {denied(http.MethodPut, ""), "writing an object", "s3:PutObject"},
		"no right to read":  {denied(http.MethodGet, "GetObject"), "reading an object", "s3:GetObject"},
		"no encryption":     {changed(func(o *archive.Options) { o.SSE = "s3" }), "does not say that it has encrypted", "s3 sse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := open(t, c.options).Check(t.Context())
			if len(found) == 0 || !strings.Contains(found[0].Text, c.text) || !strings.Contains(found[0].Remedy, c.remedy) {
				t.Errorf("%+v", found)
			}
			if weak := name == "no encryption"; len(found) > 0 && found[0].Weak != weak {
				t.Errorf("weak: %+v", found[0])
			}
			for _, f := range found {
				if strings.Contains(f.Text, store.SecretKey) || strings.Contains(f.Text, "X-Amz-Signature") {
					t.Errorf("a secret is in %q", f.Text)
				}
			}
		})
	}
}

// TestTheCheckNoticesIgnoredConditions: a store that ignores the conditions of writes is still used, but reported as
// weaker.
func TestTheCheckNoticesIgnoredConditions(t *testing.T) {
	store := options(devenv.S3(t))
	for name, c := range map[string]struct {
		answer func(*http.Request) (*http.Response, error)
		weak   bool
	}{
		"ignored": {respond(200, ""), true},
		"refused": {respond(501, code("NotImplemented")), false},
	} {
		found := open(t, through(store, func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPut && (r.Header.Get("If-None-Match") != "" || r.Header.Get("If-Match") != "") {
				return c.answer(r)
			}
			return nil, nil
		})).Check(t.Context())
		if len(found) != 1 || found[0].Weak != c.weak || !strings.Contains(found[0].Remedy, "conditional writes") {
			t.Errorf("%s: %+v", name, found)
		}
	}
}

// TestTheCheckWritesNothingWhenItCannotReadTheMarker: the bucket may not belong to this installation.
func TestTheCheckWritesNothingWhenItCannotReadTheMarker(t *testing.T) {
	wrote := false
	found := open(t, through(options(devenv.S3(t)), func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, archive.MarkerKey) {
			return respond(403, code("AccessDenied"))(r)
		}
		wrote = wrote || r.Method != http.MethodGet
		return nil, nil
	})).Check(t.Context())
	if wrote || len(found) != 1 || !strings.Contains(found[0].Text, "reading the bucket's marker") {
		t.Errorf("wrote: %v, %+v", wrote, found)
	}
}

// TestTheCheckRemovesWhatAKilledOneLeft: a killed check leaves an object and an upload. A later check removes them, but
// not the object and upload of a running check.
func TestTheCheckRemovesWhatAKilledOneLeft(t *testing.T) {
	b := fresh(t)
	b.put("archives/"+archive.CheckFolder+"LEFT", "x")
	b.s3.BeginUpload(t, "archives/"+archive.CheckFolder+"LEFT.parts")
	if found := b.Check(t.Context()); len(found) != 0 || !slices.Equal(b.list(), []string{archive.CheckFolder + "LEFT"}) || len(b.uploads()) != 1 {
		t.Fatalf("young: %+v, %q, %+v", found, b.list(), b.uploads())
	}
	// According to its listings, the store's clock is two hours ahead, so the remains are old.
	o := options(b.s3)
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(r)
			if q := r.URL.Query(); err == nil && response.StatusCode == http.StatusOK && (q.Has("list-type") || q.Has("uploads")) {
				response.Header.Set("Date", time.Now().Add(2*time.Hour).UTC().Format(http.TimeFormat))
			}
			return response, err
		})
	}
	open(t, o).Check(t.Context())
	if len(b.list()) != 0 || len(b.uploads()) != 0 {
		t.Errorf("old: %q, %+v", b.list(), b.uploads())
	}
}

// tlsStore returns the real store behind TLS.
func tlsStore(t *testing.T) (o archive.Options, certificate *x509.Certificate) {
	t.Helper()
	o = options(devenv.S3(t))
	target, err := url.Parse(o.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // it is signed
	}})
	t.Cleanup(proxy.Close)
	o.Endpoint = proxy.URL
	return o, proxy.Certificate()
}

func TestACAFileIsTrusted(t *testing.T) {
	o, certificate := tlsStore(t)
	found := open(t, o).Check(t.Context())
	if len(found) != 1 || !strings.Contains(found[0].Text, "certificate") || !strings.Contains(found[0].Remedy, "s3 ca") {
		t.Errorf("without the file: %+v", found)
	}
	o.CA = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw}))
	if found := open(t, o).Check(t.Context()); len(found) != 0 {
		t.Errorf("with the file: %+v", found)
	}
	// Trusting an authority does not weaken the check of names.
	o.Endpoint = strings.Replace(o.Endpoint, "127.0.0.1", "localhost", 1)
	if found := open(t, o).Check(t.Context()); len(found) != 1 || !strings.Contains(found[0].Remedy, "a name that the store's certificate is for") {
		t.Errorf("with another name: %+v", found)
	}
}

// TestAClockThatIsWrongIsCorrected: this machine's clock is years away from the store's. The SDK then signs by the date
// of the store's answer. The addresses for others are signed by it, too.
func TestAClockThatIsWrongIsCorrected(t *testing.T) {
	o := options(devenv.S3(t))
	synctest.Test(t, func(t *testing.T) { // it is the year 2000 here
		s := open(t, through(o, func(r *http.Request) (*http.Response, error) {
			r.Close = true // a kept connection would outlive the bubble
			return nil, nil
		}))
		if found := s.Check(t.Context()); len(found) != 0 {
			t.Errorf("%+v", found)
		}
	})
}

func TestEncryptionIsAskedForWithEveryObject(t *testing.T) {
	for sse, want := range map[string]string{"": "", "s3": "AES256 ", "kms": "aws:kms ", "kms key/1": "aws:kms key/1"} {
		o := options(devenv.S3(t))
		o.SSE = sse
		began, other := 0, 0
		s := open(t, through(o, func(r *http.Request) (*http.Response, error) {
			got := r.Header.Get("X-Amz-Server-Side-Encryption") + " " + r.Header.Get("X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id")
			begins := r.Method == http.MethodPut && !r.URL.Query().Has("partNumber") || r.Method == http.MethodPost && r.URL.Query().Has("uploads")
			switch {
			case begins && strings.TrimLeft(got, " ") == want:
				began++
			case got != " ":
				other++
			}
			return nil, nil
		}))
		if err := errors.Join(s.CreateEmpty(t.Context(), key), s.WriteMarker(t.Context(), []byte("x"), "")); err != nil {
			t.Fatal(err)
		}
		s.Check(t.Context())
		if began < 6 || other != 0 {
			t.Errorf("%q: %d requests begin an object as they should, %d others ask", sse, began, other)
		}
		if got := fmt.Sprint(o.ServerSideEncryption()); sse == "" && got != "map[]" || sse == "s3" && got != "map[X-Amz-Server-Side-Encryption:[AES256]]" {
			t.Errorf("%q: %s", sse, got)
		}
	}
}

// TestThePausesBetweenTriesGrowAndDiffer: processes that a store turned away together must not come back together.
func TestThePausesBetweenTriesGrowAndDiffer(t *testing.T) {
	for name, c := range map[string]struct {
		answer      transport
		least, most [3]time.Duration
	}{
		"overloaded": {
			respond(503, code("SlowDown")),
			[3]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, [3]time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		},
		"too many requests": {
			respond(429, ""),
			[3]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, [3]time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		},
		"broken": {
			respond(500, code("InternalError")),
			[3]time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}, [3]time.Duration{time.Second, 2 * time.Second, 4 * time.Second},
		},
		"no connection": {
			fails(&net.OpError{Op: "dial", Err: errors.New("connection refused")}),
			[3]time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}, [3]time.Duration{400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond},
		},
		"it says when": {
			func(r *http.Request) (*http.Response, error) {
				response, err := respond(503, code("SlowDown"))(r)
				response.Header.Set("Retry-After", "6")
				return response, err
			},
			[3]time.Duration{6 * time.Second, 6 * time.Second, 6 * time.Second}, [3]time.Duration{6 * time.Second, 6 * time.Second, 6 * time.Second},
		},
		"it says never": {
			func(r *http.Request) (*http.Response, error) {
				response, err := respond(503, code("SlowDown"))(r)
				response.Header.Set("Retry-After", "60000")
				return response, err
			},
			[3]time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second}, [3]time.Duration{10 * time.Second, 10 * time.Second, 10 * time.Second},
		},
	} {
		bubble(t, name, func(t *testing.T) {
			var seen [3]map[time.Duration]bool
			for i := range seen {
				seen[i] = make(map[time.Duration]bool)
			}
			for range 20 {
				var at []time.Time
				s := answeredBy(t, func(r *http.Request) (*http.Response, error) {
					at = append(at, time.Now())
					return c.answer(r)
				})
				if _, err := s.ReadMarker(t.Context()); workspace.ReasonOf(err) != workspace.ReasonUnreachable || len(at) != 4 {
					t.Fatalf("%d tries, %v", len(at), err)
				}
				for i := range 3 {
					pause := at[i+1].Sub(at[i])
					seen[i][pause] = true
					if pause < c.least[i] || pause > c.most[i] {
						t.Errorf("pause %d is %s, not from %s to %s", i+1, pause, c.least[i], c.most[i])
					}
				}
			}
			for i := range 3 {
				if c.least[i] != c.most[i] && len(seen[i]) < 10 {
					t.Errorf("pause %d is the same for many: %v", i+1, seen[i])
				}
			}
		})
	}
}

func TestEncryptionAndCertificatesThatMakeNoSenseAreRefused(t *testing.T) {
	for says, o := range map[string]archive.Options{
		`s3 sse: "aes" is unknown`:    {Bucket: "bucket", SSE: "aes"},
		`s3 sse: s3 takes no key`:     {Bucket: "bucket", SSE: "s3 key"},
		`s3 sse: kms takes one key`:   {Bucket: "bucket", SSE: "kms a b"},
		`s3 ca: holds no certificate`: {Bucket: "bucket", CA: "x"},
	} {
		_, err := archive.New(o)
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}
