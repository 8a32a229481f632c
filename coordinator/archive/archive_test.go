package archive_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// sum is a well-formed checksum.
var sum = strings.Repeat("0f", 32)

const key = "00000000-0000-4000-8000-000000000001/00000000-0000-4000-8000-0000000000aa/home.tar.zst"

func options(s devenv.ObjectStore) archive.Options {
	return archive.Options{
		Endpoint: s.Endpoint, Region: s.Region, Bucket: s.Bucket,
		AccessKey: s.AccessKey, SecretKey: s.SecretKey, PathStyle: true,
	}
}

func open(t *testing.T, o archive.Options) *archive.Store {
	t.Helper()
	s, err := archive.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bucket is a store together with a plain client for the same bucket.
type bucket struct {
	*archive.Store
	t      *testing.T
	s3     devenv.ObjectStore
	name   string
	client *s3.Client
}

func fresh(t *testing.T) bucket {
	t.Helper()
	s := devenv.S3(t)
	return bucket{Store: open(t, options(s)), t: t, s3: s, name: s.Bucket, client: s.Client(t)}
}

func (b bucket) put(object, content string) {
	b.t.Helper()
	_, err := b.client.PutObject(b.t.Context(), &s3.PutObjectInput{
		Bucket: &b.name, Key: &object, Body: strings.NewReader(content),
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b bucket) get(object string) string {
	b.t.Helper()
	out, err := b.client.GetObject(b.t.Context(), &s3.GetObjectInput{Bucket: &b.name, Key: &object})
	if err != nil {
		b.t.Fatal(err)
	}
	defer out.Body.Close()
	content, err := io.ReadAll(out.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(content)
}

// requireChecksum checks that the commit marker belongs to the archive.
func (b bucket) requireChecksum(key string) {
	b.t.Helper()
	want := contract.FormatMeta(fmt.Sprintf("%x", sha256.Sum256([]byte(b.get("archives/"+key)))))
	if got := b.get("archives/" + key + contract.MetaSuffix); got != want {
		b.t.Fatalf("the commit marker is %q, want %q", got, want)
	}
}

func (b bucket) list() []string {
	b.t.Helper()
	var keys []string
	if err := b.List(b.t.Context(), func(page []archive.Object) error {
		for _, o := range page {
			keys = append(keys, o.Key)
		}
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func TestAnArchiveIsThereOnlyWithItsCommitMarker(t *testing.T) {
	b := fresh(t)
	missing := func(when string) {
		t.Helper()
		if _, err := b.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%s: Stat returns %v, want fs.ErrNotExist", when, err)
		}
	}
	missing("without anything")
	b.put("archives/"+key, "12345")
	missing("with the archive only")
	b.put("archives/"+key+".meta", contract.FormatMeta(sum))
	info, err := b.Stat(t.Context(), key)
	if err != nil || info.Size != 5 {
		t.Fatalf("with both: %+v, %v", info, err)
	}
	if _, err := b.Delete(t.Context(), []string{key}); err != nil {
		t.Fatal(err)
	}
	missing("with the marker only")
}

// TestAMalformedMarkerIsAnErrorOfItsOwn: a restore refuses such an archive. It must count neither as a good archive,
// whose volume may be deleted, nor as a missing one.
func TestAMalformedMarkerIsAnErrorOfItsOwn(t *testing.T) {
	b := fresh(t)
	b.put("archives/"+key, "12345")
	for _, text := range []string{"", "md5:00", "sha256:xyz", "sha256:" + strings.Repeat("G", 64), " " + contract.FormatMeta(sum),
		contract.FormatMeta(sum) + "\r\n", contract.FormatMeta(sum) + strings.Repeat(" ", 1<<20)} {
		b.put("archives/"+key+".meta", text)
		info, err := b.Stat(t.Context(), key)
		if !errors.Is(err, contract.ErrMalformedMeta) || errors.Is(err, fs.ErrNotExist) || info.Size != 5 {
			t.Errorf("marker %.100q: %+v, %v", text, info, err)
		}
		if got := workspace.ReasonOf(err); got != workspace.ReasonArchiveCorrupted {
			t.Errorf("marker %.100q: reason %s", text, got)
		}
		if err := b.CreateEmpty(t.Context(), key); !errors.Is(err, contract.ErrMalformedMeta) {
			t.Errorf("marker %.100q: CreateEmpty returns %v", text, err)
		}
		if got := b.get("archives/" + key); got != "12345" {
			t.Fatalf("marker %.100q: CreateEmpty replaced the archive with %q", text, got)
		}
	}
	b.put("archives/"+key+".meta", contract.FormatMeta(sum)+"\n") // repaired by hand
	if info, err := b.Stat(t.Context(), key); err != nil || info.Size != 5 {
		t.Errorf("a marker with a newline: %+v, %v", info, err)
	}
}

// TestAMissingBucketIsNotAMissingArchive: a missing bucket must never look like a lost archive.
func TestAMissingBucketIsNotAMissingArchive(t *testing.T) {
	o := options(devenv.S3(t))
	o.Bucket += "-not-there"
	_, err := open(t, o).Stat(t.Context(), key)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat returns %v", err)
	}
}

func TestAWrongKeyIsNotAMissingArchive(t *testing.T) {
	o := options(devenv.S3(t))
	o.SecretKey += "x"
	_, err := open(t, o).Stat(t.Context(), key)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Stat returns %v", err)
	}
}

func TestTheBucketIsCreatedOnce(t *testing.T) {
	o := options(devenv.S3(t))
	o.Bucket += "-second"
	s := open(t, o)
	for range 2 {
		if err := s.EnsureBucket(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Stat(t.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("in the new bucket Stat returns %v", err)
	}
}

func TestAnEmptyArchiveIsAnArchive(t *testing.T) {
	b := fresh(t)
	var first string
	for range 2 {
		if err := b.CreateEmpty(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		content := b.get("archives/" + key)
		if first == "" {
			first = content
		}
		if content != first {
			t.Fatal("a second empty archive has different bytes")
		}
	}
	if info, err := b.Stat(t.Context(), key); err != nil || info.Size != int64(len(first)) {
		t.Fatalf("%+v, %v", info, err)
	}
	b.requireChecksum(key)
	z, err := zstd.NewReader(bytes.NewReader([]byte(first)))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if _, err := tar.NewReader(z).Next(); !errors.Is(err, io.EOF) {
		t.Fatalf("reading the first entry gives %v, want io.EOF", err)
	}
}

func TestCreateEmptyFinishesAnInterruptedRun(t *testing.T) {
	b := fresh(t)
	b.put("archives/"+key, "half of somethi")
	if err := b.CreateEmpty(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	b.requireChecksum(key)
}

func TestCreateEmptyNeverReplacesAnArchive(t *testing.T) {
	b := fresh(t)
	b.put("archives/"+key, "other files")
	b.put("archives/"+key+contract.MetaSuffix, contract.FormatMeta(sum))
	if err := b.CreateEmpty(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if got := b.get("archives/" + key); got != "other files" {
		t.Fatalf("the archive holds %q", got)
	}
}

func TestListingAndDeletingStayUnderThePrefix(t *testing.T) {
	b := fresh(t)
	b.put("other/file", "x")
	b.put("archives-of-others/file", "x")
	var keys []string
	for i := range 1203 { // more than one page, more than one request
		keys = append(keys, fmt.Sprintf("k/%04d", i))
	}
	for _, k := range keys {
		b.put("archives/"+k, "x")
	}
	if got := b.list(); !slices.Equal(got, keys) {
		t.Fatalf("listed %d objects, want %d: %.200q", len(got), len(keys), got)
	}
	kept := keys[len(keys)-1]
	failed, err := b.Delete(t.Context(), append([]string{"k/absent", "file"}, keys[:len(keys)-1]...))
	if err != nil || len(failed) != 0 {
		t.Fatalf("failed: %v, %v", failed, err)
	}
	if got := b.list(); !slices.Equal(got, []string{kept}) {
		t.Fatalf("left: %.200q", got)
	}
	b.get("other/file")
	b.get("archives-of-others/file")
}

func TestAListingEndsWithTheErrorOfItsCallback(t *testing.T) {
	b := fresh(t)
	b.put("archives/a", "x")
	stop := errors.New("enough")
	if err := b.List(t.Context(), func([]archive.Object) error { return stop }); !errors.Is(err, stop) {
		t.Fatalf("List returns %v", err)
	}
}

func TestAnUnreachableStoreIsAnErrorForEveryKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := answeredBy(t, fails(errors.New("connection refused")))
		failed, err := s.Delete(t.Context(), []string{"one", "two"})
		if err == nil || len(failed) != 2 {
			t.Fatalf("failed: %v, %v", failed, err)
		}
	})
}

// TestObjectsThatAreNotDeletedAreNamed: the store deletes some of the objects and refuses others.
func TestObjectsThatAreNotDeletedAreNamed(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<DeleteResult><Error><Key>archives/two</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>`)
	}))
	defer store.Close()
	s := open(t, archive.Options{Endpoint: store.URL, Bucket: "bucket", AccessKey: "a", SecretKey: "b", PathStyle: true})
	failed, err := s.Delete(t.Context(), []string{"one", "two"})
	if err != nil || len(failed) != 1 || failed["two"] == nil || !strings.Contains(failed["two"].Error(), "AccessDenied: locked") {
		t.Fatalf("failed: %v, %v", failed, err)
	}
}

// TestAListingOutsideThePrefixIsAnError: an object outside the prefix must never reach the collector.
func TestAListingOutsideThePrefixIsAnError(t *testing.T) {
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/xml")
		fmt.Fprint(w, `<ListBucketResult><Contents><Key>elsewhere/file</Key></Contents></ListBucketResult>`)
	}))
	defer store.Close()
	s := open(t, archive.Options{Endpoint: store.URL, Bucket: "bucket", AccessKey: "a", SecretKey: "b", PathStyle: true})
	err := s.List(t.Context(), func(page []archive.Object) error { t.Errorf("got %v", page); return nil })
	if err == nil || !strings.Contains(err.Error(), "elsewhere/file") {
		t.Fatalf("List returns %v", err)
	}
}

// TestATransientFailureIsRetried: a real server does not fail on demand. So this test has a server that answers 503
// twice and then redirects to a real one.
func TestATransientFailureIsRetried(t *testing.T) {
	var left atomic.Int32
	left.Store(2)
	real := devenv.S3(t)
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		http.Redirect(w, r, real.Endpoint+r.URL.RequestURI(), http.StatusTemporaryRedirect)
	}))
	defer failing.Close()
	o := options(real)
	o.Endpoint = failing.URL
	_, _ = open(t, o).Stat(t.Context(), key)
	if n := left.Load(); n >= 0 {
		t.Fatalf("the client gave up %d answers early", n+1)
	}
}

func TestTheEnvironmentOfAJob(t *testing.T) {
	o := archive.Options{
		Endpoint: "http://127.0.0.1:9000", JobEndpoint: "http://store:9000", Region: "eu-west-1", Bucket: "bucket",
		Prefix: "p/", AccessKey: "access", SecretKey: "secret", PathStyle: true,
	}
	// There are no credentials: engines show a container's environment to all their users.
	want := []string{
		"ARCHIVE_URL=s3://bucket/p/" + key, "AWS_ENDPOINT_URL_S3=http://store:9000", "AWS_REGION=eu-west-1",
		"CODEHUB_GRANT=true", "CODEHUB_VERIFY=full", "S3_PATH_STYLE=true",
	}
	got := open(t, o).JobEnv(key)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("got %q", got)
	}
	got = open(t, archive.Options{Bucket: "bucket"}).JobEnv("k")
	slices.Sort(got)
	if want := []string{"ARCHIVE_URL=s3://bucket/archives/k", "AWS_REGION=us-east-1", "CODEHUB_GRANT=true", "CODEHUB_VERIFY=full", "S3_PATH_STYLE=false"}; !slices.Equal(got, want) {
		t.Fatalf("with the defaults: %q", got)
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	err := archive.Options{
		Endpoint: "localhost:9000", JobEndpoint: "http://user:pw@store", Prefix: "archives", AccessKey: "only",
	}.Validate()
	if err == nil {
		t.Fatal("accepted")
	}
	for _, setting := range []string{"s3 bucket", "s3 endpoint", "s3 job_endpoint", "s3 prefix", "s3 secret_key"} {
		if !strings.Contains(err.Error(), setting) {
			t.Errorf("the error does not name %q:\n%v", setting, err)
		}
	}
	if strings.Contains(err.Error(), "pw") {
		t.Errorf("the error shows a password:\n%v", err)
	}
	if _, err := archive.New(archive.Options{}); err == nil {
		t.Error("New accepts what Validate refuses")
	}
}
