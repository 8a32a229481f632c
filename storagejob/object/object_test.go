package object

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/storagejob/contract"
)

const key = "archives/a/b/home.tar.zst"

// openEmpty opens an archive in an empty bucket, through a proxy that breaks
// connections.
func openEmpty(t *testing.T) (*Archive, *proxy) {
	t.Helper()
	store := devenv.S3(t)
	l := newProxy(t, strings.TrimPrefix(store.Endpoint, "http://"))
	t.Setenv("AWS_ACCESS_KEY_ID", store.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", store.SecretKey)
	t.Setenv("AWS_REGION", store.Region)
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://"+l.Addr().String())
	a, err := Open(t.Context(), "s3://"+store.Bucket+"/"+key, true)
	must(t, err)
	return a, l
}

// proxy forwards connections to a server. While down or up is not negative, each new
// connection breaks after so many bytes in that direction.
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
	_, err := io.CopyBuffer(struct{ io.Writer }{up}, struct{ io.Reader }{bytes.NewReader(content)}, make([]byte, 100_003))
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

func TestSizesAroundAPart(t *testing.T) {
	a, _ := openEmpty(t)
	for _, size := range []int{0, 1, partSize - 1, partSize, partSize + 1, 3*partSize + 5} {
		content := random(size)
		must(t, upload(t, a, content))
		got, err := download(t, a)
		must(t, err)
		if !bytes.Equal(got, content) {
			t.Errorf("%d bytes came back as %d others", size, len(got))
		}
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

// A connection that stays open and silent is replaced, too.
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

// An archive that does not belong to its .meta counts as not committed.
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

// A wrong bucket is a wrong setting, not a missing archive: it must not look like
// lost data.
func TestMissingBucketIsUnreachable(t *testing.T) {
	a, _ := openEmpty(t)
	a.bucket += "-not-there"
	_, meta := a.Meta(t.Context())
	_, body := a.Download(t.Context())
	for what, err := range map[string]error{
		"Meta": meta, "Download": body, "Prepare": a.Prepare(t.Context()), "Commit": a.Commit(t.Context(), Info{}),
		"a small upload": upload(t, a, []byte("x")), "a large upload": upload(t, a, random(partSize+1)),
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
	if _, err := io.ReadAll(d); !errors.Is(err, ErrUnreachable) || !errors.Is(d.Err(), ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

func TestConnectionsThatAlwaysBreak(t *testing.T) {
	a, l := openEmpty(t)
	content := random(3 * partSize)
	must(t, upload(t, a, content))
	l.limit(&l.down, 0)
	if _, err := download(t, a); !errors.Is(err, ErrUnreachable) {
		t.Errorf("download: %v", err)
	}
	l.down.Store(-1)
	l.limit(&l.up, 1<<20) // enough to start an upload, not for a part of it
	if err := upload(t, a, content); !errors.Is(err, ErrUnreachable) {
		t.Errorf("upload: %v", err)
	}
	if l.broken.Load() < 2*attempts {
		t.Errorf("only %d connections were tried", l.broken.Load())
	}
}

func TestPrepareRemovesLeftoversOfThisArchiveAlone(t *testing.T) {
	a, _ := openEmpty(t)
	start := func(key string) {
		_, err := a.client.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &a.bucket, Key: &key})
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
		"sha256:" + sum[1:]: contract.ErrMalformedMeta, "md5:" + sum: contract.ErrMalformedMeta, "": contract.ErrMalformedMeta, "sha256:" + sum + "00": contract.ErrMalformedMeta,
	} {
		metaKey := key + contract.MetaSuffix
		_, err := a.client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &a.bucket, Key: &metaKey, Body: strings.NewReader(text)})
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
	up.size = partSize*maxParts - 1
	if n, err := up.Write(make([]byte, 2)); n != 0 || err == nil || errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "156 GiB") {
		t.Errorf("%d, %v", n, err)
	}
}

func TestAbortAfterCancelLeavesNothing(t *testing.T) {
	a, _ := openEmpty(t)
	ctx, cancel := context.WithCancel(t.Context())
	up := a.Upload(ctx)
	_, err := up.Write(random(2*partSize + 1))
	must(t, err)
	cancel()
	up.Abort()
	out, err := a.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &a.bucket})
	must(t, err)
	if len(out.Uploads) != 0 {
		t.Errorf("left: %v", out.Uploads)
	}
}
