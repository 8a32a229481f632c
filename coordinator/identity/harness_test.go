package identity

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// engine is a backend that can be replaced by a different one under the same address.
type engine struct {
	*memory.Backend
	mu  sync.Mutex
	id  string
	err error
}

func (e *engine) Identity(context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.id, e.err
}

func (e *engine) become(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.id = id
}

// place is a bucket in the tests' object store.
type place struct {
	t *testing.T
	*archive.Store
	name   string
	client *s3.Client
}

func newPlace(t *testing.T) *place {
	t.Helper()
	o := devenv.S3(t)
	a, err := archive.New(archive.Options{
		Endpoint: o.Endpoint, Region: o.Region, Bucket: o.Bucket, AccessKey: o.AccessKey, SecretKey: o.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &place{t: t, Store: a, name: o.Bucket, client: o.Client(t)}
}

// content returns the content of the bucket: the name of each object with its ETag.
func (p *place) content() map[string]string {
	p.t.Helper()
	out, err := p.client.ListObjectsV2(p.t.Context(), &s3.ListObjectsV2Input{Bucket: &p.name})
	if err != nil {
		p.t.Fatal(err)
	}
	objects := make(map[string]string)
	for _, o := range out.Contents {
		objects[*o.Key] = *o.ETag
	}
	return objects
}

// empty removes the marker. destroy also removes the bucket, as if the store's data folder were not mounted.
func (p *place) empty() {
	p.t.Helper()
	if _, err := p.Delete(p.t.Context(), []string{archive.MarkerKey}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) destroy() {
	p.t.Helper()
	p.empty()
	if _, err := p.client.DeleteBucket(p.t.Context(), &s3.DeleteBucketInput{Bucket: &p.name}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) exists() bool {
	p.t.Helper()
	_, err := p.client.HeadBucket(p.t.Context(), &s3.HeadBucketInput{Bucket: &p.name})
	return err == nil
}

// process is one process of an installation.
type process struct {
	t *testing.T
	*Guard
	db     *store.Store
	engine *engine
	logs   *observer.ObservedLogs
}

// newProcess starts a process of the installation with that name on a database.
func newProcess(t *testing.T, db *store.Store, name string, e *engine, bucket Bucket) *process {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	return &process{t: t, Guard: New(db, e, bucket, name, zap.New(core)), db: db, engine: e, logs: logs}
}

// first returns a process of an installation that has recorded engine A and the bucket.
func first(t *testing.T, bucket Bucket) *process {
	t.Helper()
	p := newProcess(t, storetest.Open(t), "one", &engine{Backend: memory.New(), id: "A"}, bucket)
	p.fine(p.Guard.Backend)
	p.fine(p.Guard.Bucket)
	return p
}

// fine checks that the resource is the recorded one.
func (p *process) fine(check func(context.Context) error) {
	p.t.Helper()
	if err := check(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// wrong checks that the resource is a different one, and returns the mismatch.
func (p *process) wrong(check func(context.Context) error) *MismatchError {
	p.t.Helper()
	err := check(p.t.Context())
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) {
		p.t.Fatalf("got %v, want a mismatch", err)
	}
	return mismatch
}

func (p *process) row(r store.Resource) store.Identity {
	p.t.Helper()
	rows, err := p.db.Identities(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	return rows[r]
}

// accept accepts the found identity, like an administrator.
func (p *process) accept(r store.Resource) {
	p.t.Helper()
	if err := p.db.AcceptIdentity(p.t.Context(), r, p.row(r).Found); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) exec(sql string) {
	p.t.Helper()
	storetest.Exec(p.t, p.db, sql)
}
