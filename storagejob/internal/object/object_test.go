package object

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"golang.org/x/sys/unix"

	archives "github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const key = "archives/a/b/home.tar.zst"

// openEmpty opens an archive in an empty bucket, through a proxy that breaks connections.
func openEmpty(t *testing.T) (*Archive, *proxy) {
	t.Helper()
	store := devenv.S3(t)
	l := newProxy(t, strings.TrimPrefix(store.Endpoint, "http://"))
	t.Setenv("AWS_ACCESS_KEY_ID", store.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", store.SecretKey)
	t.Setenv("AWS_REGION", store.Region)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+l.Addr().String())
	a, err := Open(t.Context(), Options{URL: "s3://" + store.Bucket + "/" + key, PathStyle: true, Scratch: t.TempDir()})
	must(t, err)
	t.Cleanup(a.Close)
	return a, l
}

// openGranted opens an archive with a grant for a job of that kind and without credentials. It also returns the same
// archive with credentials.
func openGranted(t *testing.T, kind workspace.JobKind) (a, all *Archive, l *proxy) {
	t.Helper()
	all, l = openEmpty(t)
	store, err := archives.New(archives.Options{
		Endpoint: os.Getenv("AWS_ENDPOINT_URL_S3"), Region: os.Getenv("AWS_REGION"), Bucket: all.bucket,
		PathStyle: true,
		AccessKey: os.Getenv("AWS_ACCESS_KEY_ID"), SecretKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
	})
	must(t, err)
	g, err := store.Grant(t.Context(), kind, strings.TrimPrefix(key, archives.DefaultPrefix), time.Hour)
	must(t, err)
	return reopen(t, all, g), all, l
}

// reopen opens an archive with a grant, and wrong credentials in the environment.
func reopen(t *testing.T, all *Archive, g contract.Grant) *Archive {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "wrong")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong")
	a, err := Open(t.Context(),
		Options{URL: "s3://" + all.bucket + "/" + key, PathStyle: true, Scratch: t.TempDir(), Grant: &g})
	must(t, err)
	t.Cleanup(a.Close)
	return a
}

// eachWay runs a test with credentials and with a grant.
func eachWay(t *testing.T, test func(t *testing.T, a *Archive, l *proxy)) {
	t.Run("credentials", func(t *testing.T) {
		a, l := openEmpty(t)
		test(t, a, l)
	})
	t.Run("grant", func(t *testing.T) {
		a, _, l := openGranted(t, workspace.JobArchive)
		test(t, a, l)
	})
}

// proxy forwards connections to a server. If down or up is not negative, each new connection breaks after that number
// of bytes in that direction.
type proxy struct {
	net.Listener
	down, up atomic.Int64
	stall    atomic.Bool  // fall silent instead of breaking
	broken   atomic.Int64 // connections that broke
	open     sync.Map     // of net.Conn
}

// limit sets one of the limits and closes all open connections.
func (l *proxy) limit(which *atomic.Int64, bytes int64) {
	which.Store(bytes)
	l.open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
}

func newProxy(t *testing.T, to string) *proxy {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	l := &proxy{Listener: inner}
	l.down.Store(-1)
	l.up.Store(-1)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go l.forward(client, to)
		}
	}()
	return l
}

func (l *proxy) forward(client net.Conn, to string) {
	defer client.Close()
	l.open.Store(client, nil)
	defer l.open.Delete(client)
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	done := make(chan struct{}, 2)
	pass := func(dst io.Writer, src io.Reader, limit int64) {
		if limit < 0 {
			_, _ = io.Copy(dst, src)
		} else if n, _ := io.CopyN(dst, src, limit); n == limit {
			l.broken.Add(1)
		}
		done <- struct{}{}
	}
	go pass(client, server, l.down.Load())
	go pass(server, client, l.up.Load())
	<-done
	if l.stall.Load() {
		_, _ = io.Copy(io.Discard, client) // until the client gives up
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func random(n int) []byte {
	content := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(content) // never fails
	return content
}

func upload(t *testing.T, a *Archive, content []byte) error {
	t.Helper()
	up := a.Upload(t.Context())
	// In pieces that do not divide a part.
	_, err := io.CopyBuffer(struct{ io.Writer }{up}, struct{ io.Reader }{bytes.NewReader(content)},
		make([]byte, 100_003))
	if err == nil {
		err = up.Close()
	}
	if err != nil {
		up.Abort()
	}
	return err
}

func download(t *testing.T, a *Archive) ([]byte, error) {
	t.Helper()
	d, err := a.Download(t.Context())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return io.ReadAll(d)
}

// small is the size of the first parts in most tests.
const small = 5 << 20

// sizes returns the sizes of parts by number.
type sizes func(number int) int64

func (s sizes) Size(number int) int64 { return s(number) }

// Max has no limit.
func (sizes) Max() int64 { return 1 << 40 }

// TestSizesAroundAPart uses growing parts, the third of which is in a file.
func TestSizesAroundAPart(t *testing.T) {
	for _, size := range []int{0, 1, small - 1, small, small + 1, 3*small + 5, 3*small + contract.FirstPart} {
		eachWay(t, func(t *testing.T, a *Archive, _ *proxy) {
			a.parts = sizes(func(n int) int64 {
				return []int64{small, small, contract.FirstPart + 1, small}[n-1]
			})
			content := random(size)
			must(t, upload(t, a, content))
			got, err := download(t, a)
			must(t, err)
			if !bytes.Equal(got, content) {
				t.Errorf("%d bytes came back as %d others", size, len(got))
			}
			if left, err := os.ReadDir(a.scratch); err != nil || len(left) != 0 {
				t.Errorf("the scratch folder holds %v, %v", left, err)
			}
		})
	}
}

// TestPartsOfALargeArchiveAreEqual: a store that requires parts of equal size accepts an archive that has more parts of
// the smallest size than archives used to have.
func TestPartsOfALargeArchiveAreEqual(t *testing.T) {
	a, _ := openEmpty(t)
	store := faulty.NewStore(t, os.Getenv("AWS_ENDPOINT_URL_S3"))
	store.Set(faulty.EqualParts)
	t.Setenv("AWS_ENDPOINT_URL_S3", store.URL())
	a, err := Open(t.Context(), Options{URL: "s3://" + a.bucket + "/" + key, PathStyle: true, Scratch: t.TempDir()})
	must(t, err)
	t.Cleanup(a.Close)
	const parts = 83
	block := random(contract.FirstPart)
	a.Expect(parts * contract.FirstPart)
	up := a.Upload(t.Context())
	defer up.Abort()
	for range parts {
		_, err := up.Write(block)
		must(t, err)
	}
	must(t, up.Close())
	if stored, err := a.Stored(t.Context()); err != nil || stored.Size != parts*contract.FirstPart {
		t.Errorf("%+v, %v", stored, err)
	}
}

// TestNoRoomForAPart: the error names the full folder and has no other kind.
func TestNoRoomForAPart(t *testing.T) {
	a, _ := openEmpty(t)
	must(t, unix.Mount("tmpfs", a.scratch, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { must(t, unix.Unmount(a.scratch, unix.MNT_DETACH)) })
	a.parts = sizes(func(n int) int64 { return int64(n) * small * 3 }) // all but the first are in files
	err := upload(t, a, random(4*small))
	if !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "scratch") {
		t.Errorf("got %v", err)
	}
	if n := unfinished(t, a); n != 0 {
		t.Errorf("%d unfinished uploads", n)
	}
}

// unfinished counts multipart uploads.
func unfinished(t *testing.T, a *Archive) int {
	t.Helper()
	out, err := a.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &a.bucket})
	must(t, err)
	return len(out.Uploads)
}

// TestAPartThatArrivesLate: a store that receives a part just after the upload was aborted keeps the part, and with it
// the upload. So the job aborts only after the answer about that part.
func TestAPartThatArrivesLate(t *testing.T) {
	empty, _ := openEmpty(t)
	// With a second upload of the same archive, the store lists the kept parts of the first.
	must(t, empty.Upload(t.Context()).begin())
	to, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	received, aborted := make(chan struct{}), make(chan struct{})
	var late sync.WaitGroup
	late.Add(1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "1" {
			defer late.Done()
			content, err := io.ReadAll(r.Body)
			if err != nil {
				t.Errorf("reading the part: %v", err)
			}
			gone, end := r.Context().Done(), len(content)-1
			r = r.WithContext(t.Context()) // not the client's: the store continues
			// Receiving the last byte stands for the store's own work. If the client waits for this work, it ends soon.
			// If the client does not wait, it ends after the abort.
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(content[:end]), readerFunc(func([]byte) (int, error) {
				close(received)
				select {
				case <-gone:
					<-aborted
				case <-time.After(answerLimit / 10):
				}
				return 0, io.EOF
			}), bytes.NewReader(content[end:])))
		}
		proxy.ServeHTTP(w, r)
		if r.Method == http.MethodDelete {
			close(aborted)
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	a, err := Open(t.Context(), Options{URL: "s3://" + empty.bucket + "/" + key, PathStyle: true, Scratch: t.TempDir()})
	must(t, err)
	a.parts = sizes(func(int) int64 { return small })
	ctx, cancel := context.WithCancel(t.Context())
	u := a.Upload(ctx)
	_, err = u.Write(random(small + 1))
	must(t, err)
	<-received
	cancel()
	u.Abort()
	late.Wait()
	if n := unfinished(t, a); n != 1 {
		t.Errorf("%d unfinished uploads, want the other one", n)
	}
}

// TestAKilledRunWhoseUploadComesBack: a store may keep a part, and with it the upload, if it was still receiving the
// part when the upload was removed. The removal then has no effect.
func TestAKilledRunWhoseUploadComesBack(t *testing.T) {
	killed, _ := openEmpty(t)
	must(t, killed.Upload(t.Context()).begin())
	to, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL_S3"))
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}}
	var removals atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete && r.URL.Query().Has("uploadId") && removals.Add(1) == 1 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_S3", server.URL)
	a, err := Open(t.Context(),
		Options{URL: "s3://" + killed.bucket + "/" + key, PathStyle: true, Scratch: t.TempDir()})
	must(t, err)
	must(t, a.Prepare(t.Context()))
	if n := unfinished(t, killed); n != 1 {
		t.Fatalf("%d unfinished uploads, want the one that has come back", n)
	}
	a.Close()
	if n := unfinished(t, killed); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
}

// readerFunc is a reader.
type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestAGrantIsEnoughForAnArchive: when the job is done, the granted upload is gone, whether it was used or not.
func TestAGrantIsEnoughForAnArchive(t *testing.T) {
	for _, size := range []int{100, 3 * small} {
		a, all, _ := openGranted(t, workspace.JobArchive)
		a.parts = sizes(func(int) int64 { return small })
		must(t, all.Commit(t.Context(), Info{SHA256: strings.Repeat("0", 64)}))
		if _, err := a.Stat(t.Context()); !errors.Is(err, ErrMissing) {
			t.Errorf("before: %v", err)
		}
		must(t, a.Prepare(t.Context()))
		if _, err := all.Meta(t.Context()); !errors.Is(err, ErrMissing) {
			t.Errorf("the outdated .meta: %v", err)
		}
		content := random(size)
		must(t, upload(t, a, content))
		// The grant does not permit user metadata. The sizes are recorded anyway.
		want := Info{Size: int64(size), Content: 1 << 40, SHA256: strings.Repeat("ab", 32)}
		must(t, a.Commit(t.Context(), want))
		for _, by := range []*Archive{a, all} {
			if got, err := by.Stat(t.Context()); err != nil || got != want {
				t.Errorf("%+v came back as %+v, %v", want, got, err)
			}
		}
		if got, err := download(t, all); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes came back as %d others, %v", size, len(got), err)
		}
		a.Close()
		if n := unfinished(t, all); n != 0 {
			t.Errorf("%d unfinished uploads after an archive of %d bytes", n, size)
		}
	}
}

// TestWhatIsNotGranted: a request that is not granted is refused before it is sent, with a clear error.
func TestWhatIsNotGranted(t *testing.T) {
	a, all, _ := openGranted(t, workspace.JobRestore)
	a.parts = sizes(func(int) int64 { return small })
	for what, err := range map[string]error{
		"Prepare": a.Prepare(t.Context()), "Commit": a.Commit(t.Context(), Info{}), "a small upload": upload(t, a, []byte("x")),
		"a large upload": upload(t, a, random(small+1)),
	} {
		if !errors.Is(err, errNotGranted) || errors.Is(err, ErrUnreachable) {
			t.Errorf("%s: %v", what, err)
		}
	}
	b, _, _ := openGranted(t, workspace.JobArchive)
	b.key += "x"
	if _, err := b.Stat(t.Context()); !errors.Is(err, errNotGranted) {
		t.Errorf("another key: %v", err)
	}
	if n := unfinished(t, all); n != 0 {
		t.Errorf("%d unfinished uploads", n)
	}
}

// TestAGrantThatHasEnded: the store refuses the request. The error says why and contains no signature.
func TestAGrantThatHasEnded(t *testing.T) {
	_, all, _ := openGranted(t, workspace.JobRestore)
	at, err := http.NewRequest(http.MethodGet,
		os.Getenv("AWS_ENDPOINT_URL_S3")+"/"+all.bucket+"/"+key+contract.MetaSuffix+"?X-Amz-Expires=60", nil)
	must(t, err)
	credentials, err := all.client.Options().Credentials.Retrieve(t.Context())
	must(t, err)
	signed, _, err := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).PresignHTTP(
		t.Context(), credentials, at,
		"UNSIGNED-PAYLOAD", "s3", os.Getenv("AWS_REGION"), time.Now().Add(-time.Hour))
	must(t, err)
	// The clocks may differ: the store's clock decides.
	a := reopen(t, all, contract.Grant{Expires: time.Now().Add(time.Hour),
		Requests: []contract.GrantedRequest{{Method: http.MethodGet, URL: signed}}})
	_, err = a.Meta(t.Context())
	if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "the grant of the job expired at") ||
		strings.Contains(err.Error(), "X-Amz-Signature") {
		t.Errorf("got %v", err)
	}
}

// TestStoreRefusesADamagedPart: the store checks the part against the checksum that can be sent with a signed request.
func TestStoreRefusesADamagedPart(t *testing.T) {
	a, _, _ := openGranted(t, workspace.JobArchive)
	wrong, err := a.md5(&part{buffer: []byte("content")})
	must(t, err)
	number := int32(1)
	_, err = a.client.UploadPart(t.Context(), &s3.UploadPartInput{
		Bucket: &a.bucket, Key: &a.key, UploadId: &a.grant.Upload.ID, PartNumber: &number,
		Body: strings.NewReader("c0ntent"), ContentMD5: wrong,
	})
	var answer smithy.APIError
	if !errors.As(err, &answer) || answer.ErrorCode() != "BadDigest" {
		t.Errorf("got %v", err)
	}
}

func TestDownloadResumesWhereTheConnectionBroke(t *testing.T) {
	a, l := openEmpty(t)
	content := random(5 << 20)
	must(t, upload(t, a, content))
	l.limit(&l.down, 1<<20)
	got, err := download(t, a)
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Errorf("got %d other bytes than the %d", len(got), len(content))
	}
	if l.broken.Load() < 4 {
		t.Errorf("%d connections broke", l.broken.Load())
	}
}

// TestDownloadReplacesASilentConnection: a download replaces not only a broken connection, but also one that is open
// and silent.
func TestDownloadReplacesASilentConnection(t *testing.T) {
	a, l := openEmpty(t)
	content := random(5 << 20)
	must(t, upload(t, a, content))
	a.silence = 50 * time.Millisecond
	l.stall.Store(true)
	l.limit(&l.down, 1<<20)
	got, err := download(t, a)
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Errorf("got %d other bytes than the %d", len(got), len(content))
	}
	if l.broken.Load() < 4 {
		t.Errorf("%d connections fell silent", l.broken.Load())
	}
}

func TestMetaRecordsTheSizes(t *testing.T) {
	a, _ := openEmpty(t)
	want := Info{Size: 7, Content: 10240, SHA256: strings.Repeat("ab", 32)}
	must(t, a.Commit(t.Context(), want))
	if got, err := a.Meta(t.Context()); err != nil || got != want {
		t.Errorf("%+v came back as %+v, %v", want, got, err)
	}
	for _, text := range []string{"", "-1", "1.5", "many", "99999999999999999999"} {
		metaKey := key + contract.MetaSuffix
		_, err := a.client.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &a.bucket, Key: &metaKey, Body: strings.NewReader(contract.FormatMeta(want.SHA256)),
			Metadata: map[string]string{contract.MetaArchiveSize: text, contract.MetaContentSize: text},
		})
		must(t, err)
		if got, err := a.Meta(t.Context()); err != nil || got != (Info{SHA256: want.SHA256}) {
			t.Errorf("size %q: %+v, %v", text, got, err)
		}
	}
}

// TestStatComparesTheSizes: an archive that does not belong to its .meta counts as not committed.
func TestStatComparesTheSizes(t *testing.T) {
	a, _ := openEmpty(t)
	must(t, upload(t, a, []byte("content")))
	for size, want := range map[int64]error{7: nil, 0: nil, 8: contract.ErrMalformedMeta} {
		must(t, a.Commit(t.Context(), Info{Size: size, SHA256: strings.Repeat("ab", 32)}))
		if info, err := a.Stat(t.Context()); !errors.Is(err, want) || err == nil && info.Size != 7 {
			t.Errorf("size %d on record: %+v, %v", size, info, err)
		}
	}
}

// TestMissingBucketIsUnreachable: a wrong bucket is a wrong setting, not a missing archive, and must not look like lost
// data.
func TestMissingBucketIsUnreachable(t *testing.T) {
	a, _ := openEmpty(t)
	a.bucket += "-not-there"
	_, meta := a.Meta(t.Context())
	_, body := a.Download(t.Context())
	for what, err := range map[string]error{
		"Meta": meta, "Download": body, "Prepare": a.Prepare(t.Context()), "Commit": a.Commit(t.Context(), Info{}),
		"a small upload": upload(t, a, []byte("x")), "a large upload": upload(t, a, random(contract.FirstPart+1)),
	} {
		if !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestDownloadDoesNotResumeInAnotherArchive(t *testing.T) {
	a, l := openEmpty(t)
	must(t, upload(t, a, random(3<<20)))
	l.limit(&l.down, 1<<20)
	d, err := a.Download(t.Context())
	must(t, err)
	defer d.Close()
	_, err = io.ReadFull(d, make([]byte, 1000))
	must(t, err)
	must(t, upload(t, a, bytes.Repeat([]byte("other"), 700<<10)))
	_, err = io.ReadAll(d)
	if _, again := d.Read(make([]byte, 1)); !errors.Is(err, ErrUnreachable) || again != err {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsThatAlwaysBreak(t *testing.T) {
	eachWay(t, func(t *testing.T, a *Archive, l *proxy) {
		a.parts = sizes(func(int) int64 { return small })
		must(t, upload(t, a, random(small))) // one request: the grant is for one multipart upload
		l.limit(&l.down, 0)
		if _, err := download(t, a); !errors.Is(err, ErrUnreachable) ||
			strings.Contains(err.Error(), "X-Amz-Signature") {
			t.Errorf("download: %v", err)
		}
		l.down.Store(-1)
		l.limit(&l.up, 1<<20) // enough to start an upload, not for a part of it
		if a.grant != nil {
			// With a grant, no earlier request replaces the connections: parts would be tried on those that limit has
			// closed.
			a.client.Options().HTTPClient.(*http.Client).Transport.(*granted).next.(*http.Transport).CloseIdleConnections()
		}
		if err := upload(t, a, random(3*small)); !errors.Is(err, ErrUnreachable) ||
			strings.Contains(err.Error(), "X-Amz-Signature") {
			t.Errorf("upload: %v", err)
		}
		if l.broken.Load() < 2*attempts {
			t.Errorf("only %d connections were tried", l.broken.Load())
		}
	})
}

// TestAPartIsSentAgain: a part is sent again if its connection breaks.
func TestAPartIsSentAgain(t *testing.T) {
	eachWay(t, func(t *testing.T, a *Archive, l *proxy) {
		a.parts = sizes(func(int) int64 { return small })
		content := random(2*small + 1)
		up := a.Upload(t.Context())
		l.limit(&l.up, 2<<20)
		_, err := up.Write(content[:small+1]) // sends the first part
		must(t, err)
		wait.Until(t, "connection broken", func() bool { return l.broken.Load() > 0 })
		l.up.Store(-1)
		_, err = up.Write(content[small+1:])
		must(t, err)
		must(t, up.Close())
		if got, err := download(t, a); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d bytes came back as %d others, %v", len(content), len(got), err)
		}
	})
}

func TestPrepareRemovesLeftoversOfThisArchiveAlone(t *testing.T) {
	a, _ := openEmpty(t)
	start := func(key string) {
		_, err := a.client.CreateMultipartUpload(t.Context(),
			&s3.CreateMultipartUploadInput{Bucket: &a.bucket, Key: &key})
		must(t, err)
	}
	start(key)
	start(key)
	start(key + "x")
	must(t, a.Commit(t.Context(), Info{SHA256: strings.Repeat("0", 64)}))
	must(t, a.Prepare(t.Context()))
	out, err := a.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &a.bucket})
	must(t, err)
	if len(out.Uploads) != 1 || *out.Uploads[0].Key != key+"x" {
		t.Errorf("left: %v", out.Uploads)
	}
	if _, err := a.Meta(t.Context()); !errors.Is(err, ErrMissing) {
		t.Errorf("the outdated .meta: %v", err)
	}
}

func TestStatNeedsAWellFormedMeta(t *testing.T) {
	a, _ := openEmpty(t)
	must(t, upload(t, a, []byte("content")))
	sum := strings.Repeat("ab", 32)
	for text, want := range map[string]error{
		"sha256:" + sum: nil, "sha256:" + sum + "\n": nil,
		"sha256:" + sum[1:]: contract.ErrMalformedMeta, "md5:" + sum: contract.ErrMalformedMeta,
		"": contract.ErrMalformedMeta, "sha256:" + sum + "00": contract.ErrMalformedMeta,
	} {
		metaKey := key + contract.MetaSuffix
		_, err := a.client.PutObject(t.Context(),
			&s3.PutObjectInput{Bucket: &a.bucket, Key: &metaKey, Body: strings.NewReader(text)})
		must(t, err)
		info, err := a.Stat(t.Context())
		if !errors.Is(err, want) || err == nil && (info != Info{Size: 7, SHA256: sum}) {
			t.Errorf("%q: %+v, %v", text, info, err)
		}
	}
}

func TestUploadTooLargeForTheStoreIsRefused(t *testing.T) {
	a, _ := openEmpty(t)
	up := a.Upload(t.Context())
	defer up.Abort()
	up.size = a.parts.Max() - 1
	if n, err := up.Write(make([]byte, 2)); n != 0 || err == nil || errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "GiB") {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAbortAfterCancelLeavesNothing(t *testing.T) {
	all, _ := openEmpty(t)
	granted, also, _ := openGranted(t, workspace.JobArchive)
	for a, as := range map[*Archive]*Archive{all: all, granted: also} {
		a.parts = sizes(func(int) int64 { return small })
		ctx, cancel := context.WithCancel(t.Context())
		up := a.Upload(ctx)
		_, err := up.Write(random(2*small + 1))
		must(t, err)
		cancel()
		up.Abort()
		if n := unfinished(t, as); n != 0 {
			t.Errorf("%d unfinished uploads are left", n)
		}
	}
}
