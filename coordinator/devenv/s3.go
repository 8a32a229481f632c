package devenv

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// ObjectStore is an S3 store with an empty bucket.
type ObjectStore struct {
	// Endpoint is the store's URL; buckets are addressed by path.
	Endpoint             string
	Region, Bucket       string
	AccessKey, SecretKey string
}

// The servers that all tests of this binary share.
var (
	objectStore = sharedStore(func(ctx context.Context, s server.Storage) (*server.S3, error) {
		return server.StartS3(ctx, s, "", "", storeHost(), 0)
	})
	otherStore = sharedStore(startRclone)
)

// sharedStore returns a server, which is started the first time.
func sharedStore(start func(context.Context, server.Storage) (*server.S3, error)) func() (*server.S3, error) {
	return sync.OnceValues(func() (*server.S3, error) {
		s, err := server.Scratch(false)
		if err != nil {
			return nil, err
		}
		return start(context.Background(), s)
	})
}

// startRclone starts `rclone serve s3` on a folder.
func startRclone(ctx context.Context, storage server.Storage) (*server.S3, error) {
	bin, err := server.BuildRclone(ctx)
	if err != nil {
		return nil, err
	}
	s := &server.S3{AccessKey: "codehub", SecretKey: rand.Text()}
	web := server.Web{Name: "rclone", Host: server.Loopback}
	s.Process, s.Endpoint, s.Port, err = server.StartWeb(storage, web, func(p *server.Program, address string) {
		p.Argv = []string{
			bin, "serve", "s3", "--config", filepath.Join(storage.Dir, "rclone.conf"), "--addr", address,
			"--auth-key", s.AccessKey + "," + s.SecretKey, filepath.Join(storage.Dir, "objects"),
		}
		p.Stop = syscall.SIGKILL
	})
	return s, err
}

// S3 returns a store, versitygw, with an empty bucket for this test alone.
func S3(t testing.TB) ObjectStore {
	t.Helper()
	return emptyBucket(t, objectStore)
}

// OtherS3 is [S3] with a store of another kind, rclone, so that the tests do not rely on one store's peculiarities.
func OtherS3(t testing.TB) ObjectStore {
	t.Helper()
	return emptyBucket(t, otherStore)
}

// emptyBucket returns the store of a server with a new bucket.
func emptyBucket(t testing.TB, shared func() (*server.S3, error)) ObjectStore {
	t.Helper()
	srv, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	s := ObjectStore{
		Endpoint: srv.Endpoint, Region: server.S3Region, Bucket: "test-" + uniqueName(),
		AccessKey: srv.AccessKey, SecretKey: srv.SecretKey,
	}
	if _, err := s.Client(t).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.Bucket}); err != nil {
		t.Fatalf("making a bucket: %v", err)
	}
	return s
}

// BeginUpload leaves an unfinished upload with one part, as a killed program would, and returns the upload's id.
func (s ObjectStore) BeginUpload(t testing.TB, object string) (id string) {
	t.Helper()
	client := s.Client(t)
	out, err := client.CreateMultipartUpload(t.Context(),
		&s3.CreateMultipartUploadInput{Bucket: &s.Bucket, Key: &object})
	if err != nil {
		t.Fatal(err)
	}
	part := int32(1)
	if _, err := client.UploadPart(t.Context(), &s3.UploadPartInput{
		Bucket: &s.Bucket, Key: &object, UploadId: out.UploadId, PartNumber: &part, Body: strings.NewReader("part"),
	}); err != nil {
		t.Fatal(err)
	}
	return *out.UploadId
}

// Client returns a client of the store, for looking at its objects.
func (s ObjectStore) Client(t testing.TB) *s3.Client {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion(s.Region),
		config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(s.AccessKey, s.SecretKey, "")))
	if err != nil {
		t.Fatalf("configuring an S3 client: %v", err)
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.BaseEndpoint, o.UsePathStyle = &s.Endpoint, true
	})
}
