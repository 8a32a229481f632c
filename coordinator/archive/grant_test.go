package archive_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// granted returns a store and its options, with one archive of this user and one of another.
func granted(t *testing.T) (*archive.Store, devenv.ObjectStore) {
	t.Helper()
	at := devenv.S3(t)
	s := open(t, archive.Options{
		Endpoint: at.Endpoint, Region: at.Region, Bucket: at.Bucket, AccessKey: at.AccessKey, SecretKey: at.SecretKey, PathStyle: true,
	})
	for _, k := range []string{key, strangers} {
		if err := s.CreateEmpty(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	return s, at
}

const strangers = "22222222-2222-4222-8222-222222222222/33333333-3333-4333-8333-333333333333/home.tar.zst"

func grant(t *testing.T, s *archive.Store, kind workspace.JobKind) contract.Grant {
	t.Helper()
	g, err := s.Grant(t.Context(), kind, key, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// find returns a granted request by its method and the end of its path.
func find(t *testing.T, g contract.Grant, method, path string) contract.GrantedRequest {
	t.Helper()
	for _, r := range g.Requests {
		at, err := url.Parse(r.URL)
		if err != nil {
			t.Fatal(err)
		}
		if r.Method == method && strings.HasSuffix(at.Path, path) {
			return r
		}
	}
	t.Fatalf("%s %s is not granted", method, path)
	return contract.GrantedRequest{}
}

// status sends a request like any program that has the grant.
func status(t *testing.T, method, at string, header map[string]string, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// opens reports whether an answer shows that the store accepted the signature: it executed the request, or would have
// if the object had existed.
func opens(code int) bool { return code < 400 || code == http.StatusNotFound }

// TestAGrantOpensOneArchive tries every signed request of both kinds of grants with every method. It must not give
// access to another key, the bucket, another upload or the removal of an archive.
func TestAGrantOpensOneArchive(t *testing.T) {
	s, at := granted(t)
	for _, kind := range []workspace.JobKind{workspace.JobArchive, workspace.JobRestore} {
		g := grant(t, s, kind)
		requests := g.Requests
		if g.Upload != nil {
			part, _ := g.Upload.PartURL(1)
			requests = append(requests, contract.GrantedRequest{Method: http.MethodPut, URL: part})
		}
		for _, r := range requests {
			for what, change := range map[string]func(*url.URL){
				"another key": func(u *url.URL) { u.Path = strings.Replace(u.Path, key, strangers, 1) },
				"the bucket":  func(u *url.URL) { u.Path = "/" + at.Bucket },
				"a listing": func(u *url.URL) {
					u.Path = "/" + at.Bucket
					u.RawQuery += "&list-type=2"
				},
				"another upload": func(u *url.URL) {
					q := u.Query()
					q.Set("uploadId", "another")
					u.RawQuery = q.Encode()
				},
				"without the upload": func(u *url.URL) {
					q := u.Query()
					if q.Get("uploadId") == "" {
						q.Set("X-Amz-Signature", strings.Repeat("0", 64))
					}
					q.Del("uploadId")
					u.RawQuery = q.Encode()
				},
				"for longer": func(u *url.URL) {
					q := u.Query()
					q.Set("X-Amz-Expires", "604800")
					u.RawQuery = q.Encode()
				},
			} {
				u, err := url.Parse(r.URL)
				if err != nil {
					t.Fatal(err)
				}
				change(u)
				for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete} {
					if code, text := status(t, method, u.String(), r.Header, "x"); opens(code) {
						t.Errorf("%s job's %s %s for %s: %d %.300s", kind, method, r.URL, what, code, text)
					}
				}
			}
			// Each address is valid only with its own method.
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost, http.MethodDelete} {
				if method == r.Method {
					continue
				}
				if code, text := status(t, method, r.URL, r.Header, "x"); opens(code) {
					t.Errorf("%s job's %s %s as %s: %d %.300s", kind, r.Method, r.URL, method, code, text)
				}
			}
		}
		for _, k := range []string{key, strangers} {
			if _, err := s.Stat(t.Context(), k); err != nil {
				t.Errorf("after the %s job's grant, archive %s: %v", kind, k, err)
			}
		}
	}
}

func TestARestoreMayOnlyRead(t *testing.T) {
	s, _ := granted(t)
	g := grant(t, s, workspace.JobRestore)
	if g.Upload != nil {
		t.Error("it may upload")
	}
	for _, r := range g.Requests {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			t.Errorf("granted: %s %s", r.Method, r.URL)
		}
		if code, text := status(t, r.Method, r.URL, r.Header, ""); code != http.StatusOK {
			t.Errorf("%s %s: %d %s", r.Method, r.URL, code, text)
		}
	}
}

// TestAGrantIsSmallAndHoldsNoKey: a grant must fit where secrets are kept, and must not contain the store's own key.
func TestAGrantIsSmallAndHoldsNoKey(t *testing.T) {
	s, at := granted(t)
	text, err := json.Marshal(grant(t, s, workspace.JobArchive))
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 128<<10 {
		t.Errorf("%d bytes", len(text))
	}
	if bytes.Contains(text, []byte(at.SecretKey)) {
		t.Error("it holds the secret key")
	}
}

// TestASecondGrantDisturbsNoJob: another leader, or the same one after a crash, makes a grant for a job that is already
// running.
func TestASecondGrantDisturbsNoJob(t *testing.T) {
	s, at := granted(t)
	first := grant(t, s, workspace.JobArchive)
	part, _ := first.Upload.PartURL(1)
	if code, text := status(t, http.MethodPut, part, nil, "content"); code != http.StatusOK {
		t.Fatalf("sending a part: %d %s", code, text)
	}
	second := grant(t, s, workspace.JobArchive)
	if first.Upload.ID != second.Upload.ID {
		t.Errorf("uploads %s and %s", first.Upload.ID, second.Upload.ID)
	}
	bucket, object := at.Bucket, archive.DefaultPrefix+key
	parts, err := at.Client(t).ListParts(t.Context(), &s3.ListPartsInput{Bucket: &bucket, Key: &object, UploadId: &first.Upload.ID})
	if err != nil || len(parts.Parts) != 1 {
		t.Fatalf("parts: %v, %v", parts, err)
	}
	done := "<CompleteMultipartUpload><Part><ETag>" + *parts.Parts[0].ETag + "</ETag><PartNumber>1</PartNumber></Part></CompleteMultipartUpload>"
	if code, text := status(t, http.MethodPost, find(t, first, http.MethodPost, key).URL, nil, done); code != http.StatusOK {
		t.Fatalf("completing the first upload: %d %s", code, text)
	}
	// The archive is committed: the next grant leaves its marker and content alone.
	before, err := s.Stat(t.Context(), key)
	if err != nil || before.Size != int64(len("content")) {
		t.Fatalf("%+v, %v", before, err)
	}
	if third := grant(t, s, workspace.JobArchive); third.Upload.ID == first.Upload.ID {
		t.Error("an upload that is complete was granted again")
	}
	if after, err := s.Stat(t.Context(), key); err != nil || after != before {
		t.Errorf("%+v, %v", after, err)
	}
}

// TestAnUploadsAgeIsByTheStoresClock: the store records by its own clock when an upload began, and this machine's clock
// may differ from it by hours.
func TestAnUploadsAgeIsByTheStoresClock(t *testing.T) {
	s, at := granted(t)
	first := grant(t, s, workspace.JobArchive)
	for _, c := range []struct {
		ahead time.Duration // how far the store's clock is ahead, according to its listings
		again bool
	}{{30 * time.Minute, true}, {2 * time.Hour, false}} {
		o := options(at)
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if err == nil && r.Method == http.MethodGet && r.URL.Query().Has("uploads") {
					response.Header.Set("Date", time.Now().Add(c.ahead).UTC().Format(http.TimeFormat))
				}
				return response, err
			})
		}
		g := grant(t, open(t, o), workspace.JobArchive)
		if again := g.Upload.ID == first.Upload.ID; again != c.again {
			t.Errorf("an upload of %s ago is granted again: %v", c.ahead, again)
		}
	}
}

// TestAGrantIsForThisKeyAlone: an upload whose key only begins with this key is a different one.
func TestAGrantIsForThisKeyAlone(t *testing.T) {
	s, at := granted(t)
	at.BeginUpload(t, archive.DefaultPrefix+key+"x")
	g := grant(t, s, workspace.JobArchive)
	part, _ := g.Upload.PartURL(contract.MaxParts)
	if code, text := status(t, http.MethodPut, part, nil, "content"); code != http.StatusOK {
		t.Errorf("the last part: %d %s", code, text)
	}
	if _, ok := g.Upload.PartURL(contract.MaxParts + 1); ok {
		t.Error("one part more is granted")
	}
	if _, ok := g.Upload.PartURL(0); ok {
		t.Error("part 0 is granted")
	}
}

// TestAGrantEnds: a grant ends when the job's time is up, or earlier if a signature cannot be valid for that long.
func TestAGrantEnds(t *testing.T) {
	s, _ := granted(t)
	for lifetime, want := range map[time.Duration]time.Duration{
		0: 7 * 24 * time.Hour, time.Hour: time.Hour, 30 * 24 * time.Hour: 7 * 24 * time.Hour, time.Second: 5 * time.Minute,
		90*time.Minute + time.Second/2: 90 * time.Minute,
	} {
		before := time.Now().Truncate(time.Second)
		g, err := s.Grant(t.Context(), workspace.JobRestore, key, lifetime)
		after := time.Now()
		if err != nil {
			t.Fatal(err)
		}
		if g.Expires.Before(before.Add(want)) || g.Expires.After(after.Add(want)) {
			t.Errorf("for %s: it ends in %s", lifetime, g.Expires.Sub(before))
		}
		for _, r := range g.Requests {
			at, err := url.Parse(r.URL)
			if err != nil {
				t.Fatal(err)
			}
			if valid, err := time.ParseDuration(at.Query().Get("X-Amz-Expires") + "s"); err != nil || valid != want {
				t.Errorf("for %s: a signature is valid for %s, %v", lifetime, valid, err)
			}
		}
	}
}

// TestTemporaryCredentialsEndAGrant: a grant ends with its credentials, and is refused if they end soon.
func TestTemporaryCredentialsEndAGrant(t *testing.T) {
	at := devenv.S3(t)
	o := archive.Options{Endpoint: at.Endpoint, Region: at.Region, Bucket: at.Bucket, PathStyle: true}
	for left, ok := range map[time.Duration]bool{time.Hour: true, 2 * time.Minute: false} {
		ends := time.Now().Add(left)
		s := temporary(t, o, at, ends)
		g, err := s.Grant(t.Context(), workspace.JobRestore, key, 10*time.Hour)
		if ok && (err != nil || g.Expires.After(ends) || g.Expires.Before(ends.Add(-2*time.Second))) {
			t.Errorf("with credentials for %s: it ends at %s, not %s; %v", left, g.Expires, ends, err)
		}
		if !ok && (err == nil || workspace.ReasonOf(err) != workspace.ReasonUnreachable || !strings.Contains(err.Error(), "temporary credentials")) {
			t.Errorf("with credentials for %s: %v", left, err)
		}
	}
}

// temporary returns a store whose credentials end at that time. They come from a program that the SDK runs.
func temporary(t *testing.T, o archive.Options, at devenv.ObjectStore, ends time.Time) *archive.Store {
	t.Helper()
	answer, err := json.Marshal(map[string]any{
		"Version": 1, "AccessKeyId": at.AccessKey, "SecretAccessKey": at.SecretKey, "Expiration": ends.UTC().Format(time.RFC3339),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"answer": string(answer), "config": "[default]\ncredential_process = cat " + dir + "/answer\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_CONFIG_FILE", dir+"/config")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", dir+"/none")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	return open(t, o)
}

// TestAGrantIsForTheJobsEndpoint: jobs may use a different address of the store.
func TestAGrantIsForTheJobsEndpoint(t *testing.T) {
	s := open(t, archive.Options{
		Endpoint: "http://127.0.0.1:1", JobEndpoint: "http://store:9000", Bucket: "bucket", AccessKey: "access", SecretKey: "secret", PathStyle: true,
	})
	g := grant(t, s, workspace.JobRestore)
	if len(g.Requests) == 0 {
		t.Fatal("nothing is granted")
	}
	for _, r := range g.Requests {
		if !strings.HasPrefix(r.URL, "http://store:9000/bucket/archives/"+key) {
			t.Errorf("granted: %s", r.URL)
		}
	}
	// The coordinator begins an upload, at its own address.
	if _, err := s.Grant(t.Context(), workspace.JobArchive, key, time.Hour); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
		t.Errorf("with a store that is away: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Grant(ctx, workspace.JobArchive, key, time.Hour); err == nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		t.Errorf("cancelled: %v", err)
	}
}
