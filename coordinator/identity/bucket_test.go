package identity

import (
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

func TestAnotherBucketIsRefusedUntilItIsAccepted(t *testing.T) {
	for name, change := range map[string]func(p *process, bucket *place){
		"emptied": func(_ *process, bucket *place) { bucket.empty() },
		"another installation's marker": func(_ *process, bucket *place) {
			bucket.empty()
			first(bucket.t, bucket)
		},
		"overwritten by something else": func(_ *process, bucket *place) {
			bucket.empty()
			if err := bucket.WriteMarker(bucket.t.Context(), []byte("hello"), ""); err != nil {
				bucket.t.Fatal(err)
			}
		},
		"one that was left": func(p *process, bucket *place) {
			p.exec("UPDATE system_identity SET identity = replace(identity, 'generation 1', 'generation 5') WHERE resource = 'bucket'")
		},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := newPlace(t)
			p := first(t, bucket)
			recorded := p.row(store.ResourceBucket).Identity
			change(p, bucket)
			before := bucket.content()
			for range 2 {
				p.wrong(p.Bucket)
			}
			if !maps.Equal(bucket.content(), before) {
				t.Errorf("something was written there: %v, before %v", bucket.content(), before)
			}
			p.fine(p.Backend)
			if got := p.Problems(); len(got) != 1 || !strings.Contains(got[0], "caddy codehub accept bucket") {
				t.Errorf("problems %q", got)
			}
			if p.logs.Len() != 1 {
				t.Errorf("logged %v", p.logs.All())
			}
			p.accept(store.ResourceBucket)
			p.fine(p.Bucket)
			row := p.row(store.ResourceBucket)
			if row.Identity == recorded || row.Found != "" || row.Accepted != "" || len(p.Problems()) != 0 {
				t.Errorf("%+v, problems %q", row, p.Problems())
			}
			p.fine(p.Bucket)
		})
	}
}

func TestABucketThatIsGoneIsNotMadeAgain(t *testing.T) {
	bucket := newPlace(t)
	p := first(t, bucket)
	bucket.destroy()
	if m := p.wrong(p.Bucket); !strings.Contains(m.Found, "no bucket") || bucket.exists() {
		t.Errorf("%+v; the bucket exists: %v", m, bucket.exists())
	}
	p.accept(store.ResourceBucket)
	p.fine(p.Bucket)
}

func TestLookingAtABucketChangesNothing(t *testing.T) {
	bucket := newPlace(t)
	fresh := newProcess(t, storetest.Open(t), "one", &engine{id: "A"}, bucket)
	fresh.fine(fresh.LookAtBucket) // it has no marker
	if row := fresh.row(store.ResourceBucket); row.Identity != "" || len(bucket.content()) != 0 {
		t.Errorf("%+v, %v", row, bucket.content())
	}
	fresh.fine(fresh.Bucket)
	fresh.fine(fresh.LookAtBucket)
	before := bucket.content()
	other := newProcess(t, storetest.Open(t), "two", &engine{id: "A"}, bucket)
	var m *MismatchError
	if err := other.LookAtBucket(t.Context()); !errors.As(err, &m) || !strings.Contains(m.Found, `installation "one"`) {
		t.Errorf("got %v", err)
	}
	if row := other.row(store.ResourceBucket); row.Found != "" || other.logs.Len() != 0 || !maps.Equal(bucket.content(), before) {
		t.Errorf("%+v, %v", row, bucket.content())
	}
}

func TestTwoInstallationsOnOneBucket(t *testing.T) {
	bucket := newPlace(t)
	p := first(t, bucket)
	before := bucket.content()
	second := newProcess(t, storetest.Open(t), "two", &engine{id: "A"}, bucket)
	m := second.wrong(second.Bucket)
	if m.Expected != "" || !strings.Contains(m.Found, `installation "one"`) || len(second.Problems()) != 1 {
		t.Errorf("%+v, problems %q", m, second.Problems())
	}
	if row := second.row(store.ResourceBucket); row.Identity != "" || row.Found != m.Found {
		t.Errorf("%+v", row)
	}
	if !maps.Equal(bucket.content(), before) {
		t.Errorf("the second one has written there: %v", bucket.content())
	}
	p.fine(p.Bucket)
	second.accept(store.ResourceBucket)
	second.fine(second.Bucket)
	if m := p.wrong(p.Bucket); !strings.Contains(m.Found, `installation "two"`) {
		t.Errorf("%+v", m)
	}
}

func TestAnEmptyDatabaseBesideAFullBucket(t *testing.T) {
	bucket := newPlace(t)
	first(t, bucket)
	p := newProcess(t, storetest.Open(t), "one", &engine{id: "A"}, bucket)
	p.wrong(p.Bucket)
}

// TestADatabaseFromAnOlderDumpIsTheSame: the dump contains the id of the database.
func TestADatabaseFromAnOlderDumpIsTheSame(t *testing.T) {
	for name, rollback := range map[string]string{
		"before anything was recorded": "DELETE FROM system_identity WHERE resource <> 'database'",
		"before a bucket was accepted": "UPDATE system_identity SET identity = replace(identity, 'generation 2', 'generation 1') WHERE resource = 'bucket'",
	} {
		t.Run(name, func(t *testing.T) {
			bucket := newPlace(t)
			p := first(t, bucket)
			bucket.empty()
			p.wrong(p.Bucket)
			p.accept(store.ResourceBucket)
			p.fine(p.Bucket)
			recorded, before := p.row(store.ResourceBucket).Identity, bucket.content()
			p.exec(rollback)
			p.fine(p.Bucket)
			p.fine(p.Backend)
			if got := p.row(store.ResourceBucket).Identity; got != recorded || !maps.Equal(bucket.content(), before) {
				t.Errorf("recorded as %s, was %s", got, recorded)
			}
		})
	}
}

func TestProcessesThatStartTogetherRecordOneIdentity(t *testing.T) {
	for range 5 {
		bucket := newPlace(t)
		db := storetest.Open(t)
		var wg sync.WaitGroup
		for range 8 {
			p := newProcess(t, storetest.Reopen(t, db), "one", &engine{id: "A"}, bucket)
			wg.Go(func() {
				if err := errors.Join(p.Backend(t.Context()), p.Bucket(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(bucket.content()); n != 1 {
			t.Errorf("the bucket holds %d objects", n)
		}
	}
}

// crashing is a store whose process is killed before it records something.
type crashing struct {
	*store.Store
	crash bool
}

var errKilled = errors.New("killed")

func (c *crashing) RecordIdentity(ctx context.Context, r store.Resource, from, identity string) (bool, error) {
	if c.crash {
		return false, errKilled
	}
	return c.Store.RecordIdentity(ctx, r, from, identity)
}

func TestACrashBetweenTheMarkerAndItsRecord(t *testing.T) {
	bucket := newPlace(t)
	db := &crashing{Store: storetest.Open(t), crash: true}
	g := New(db, &engine{id: "A"}, bucket, "one", zap.NewNop())
	crash := func() {
		t.Helper()
		if err := g.Bucket(t.Context()); !errors.Is(err, errKilled) || len(bucket.content()) != 1 {
			t.Fatalf("%v; the bucket holds %v", err, bucket.content())
		}
	}
	crash()
	p := newProcess(t, storetest.Reopen(t, db.Store), "one", &engine{id: "A"}, bucket)
	p.fine(p.Bucket)
	// The same happens when a bucket is adopted.
	bucket.empty()
	p.wrong(p.Bucket)
	p.accept(store.ResourceBucket)
	crash()
	p.fine(p.Bucket)
	if got := generation(p.row(store.ResourceBucket).Identity); got != 2 {
		t.Errorf("generation %d", got)
	}
}

// racing is a store in which another process replaces the marker after this process has read it and before it writes.
type racing struct {
	*place
	then func()
}

func (r *racing) WriteMarker(ctx context.Context, content []byte, etag string) error {
	if then := r.then; then != nil {
		r.then = nil
		then()
	}
	return r.place.WriteMarker(ctx, content, etag)
}

func TestAMarkerThatAppearsMeanwhileIsNotOverwritten(t *testing.T) {
	bucket := newPlace(t)
	var winner *process
	r := &racing{place: bucket, then: func() { winner = first(t, bucket) }}
	p := newProcess(t, storetest.Open(t), "two", &engine{id: "A"}, r)
	p.wrong(p.Bucket)
	winner.fine(winner.Bucket)
	// The same happens when a bucket is adopted: the marker that the administrator has accepted is no longer there.
	p.accept(store.ResourceBucket)
	r.then = func() {
		bucket.empty()
		winner = first(t, bucket)
	}
	p.wrong(p.Bucket)
	winner.fine(winner.Bucket)
}
