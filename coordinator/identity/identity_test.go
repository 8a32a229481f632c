package identity

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/memory"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheFirstProcessRecordsWhatItSeesAndOthersAgree(t *testing.T) {
	bucket := newPlace(t)
	p := first(t, bucket)
	database := p.row(store.ResourceDatabase).Identity
	if got := p.row(store.ResourceBackend).Identity; got != "A" {
		t.Errorf("the backend is recorded as %q", got)
	}
	want := marker{"one", database, 1}
	if got := p.row(store.ResourceBucket).Identity; got != want.String() || len(database) != 36 {
		t.Errorf("the bucket is recorded as %q", got)
	}
	found, err := bucket.ReadMarker(t.Context())
	if err != nil || parseMarker(found).marker != want {
		t.Errorf("the marker is %s, %v", found.Content, err)
	}
	other := newProcess(t, storetest.Reopen(t, p.db), "one", p.engine, bucket)
	other.fine(other.Backend)
	other.fine(other.Bucket)
	if len(other.Problems()) != 0 || p.logs.Len()+other.logs.Len() != 0 {
		t.Errorf("problems %q; logged %v, %v", other.Problems(), p.logs.All(), other.logs.All())
	}
}

func TestABucketThatDoesNotExistYetIsCreated(t *testing.T) {
	bucket := newPlace(t)
	bucket.destroy()
	first(t, bucket)
	if len(bucket.content()) != 1 {
		t.Errorf("the bucket holds %v", bucket.content())
	}
}

// Another engine, or the same one with an emptied data folder: it has a new id.
func TestAnotherEngineIsRefusedUntilTheRightOneIsBack(t *testing.T) {
	p := first(t, newPlace(t))
	other := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "A"}, nil)
	p.engine.become("B")
	for range 3 {
		m := p.wrong(p.Backend)
		if m.Resource != store.ResourceBackend || m.Expected != "A" || m.Found != "B" {
			t.Fatalf("%+v", m)
		}
	}
	p.fine(p.Bucket) // each for itself
	row := p.row(store.ResourceBackend)
	if row.Identity != "A" || row.Found != "B" {
		t.Errorf("%+v", row)
	}
	if got := p.Problems(); len(got) != 1 || !strings.Contains(got[0], "caddy codehub accept backend") {
		t.Errorf("problems %q", got)
	}
	following, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- other.Run(following) }()
	wait.Until(t, "another process tells of the problem", func() bool { return len(other.Problems()) == 1 })
	stop()
	if err := <-ran; err != nil {
		t.Error(err)
	}

	p.engine.become("A")
	p.fine(p.Backend)
	if row := p.row(store.ResourceBackend); row.Found != "" || len(p.Problems()) != 0 {
		t.Errorf("%+v, problems %q", row, p.Problems())
	}
	logs := p.logs.All()
	if len(logs) != 2 || logs[0].Level != zap.ErrorLevel || logs[0].ContextMap()["found"] != "B" || logs[1].Level != zap.InfoLevel {
		t.Errorf("logged %v", logs)
	}
}

func TestAnAcceptedEngineIsAdoptedAndTheFormerOneRefused(t *testing.T) {
	p := first(t, newPlace(t))
	former := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "A"}, nil)
	p.engine.become("B")
	p.wrong(p.Backend)
	p.accept(store.ResourceBackend)
	p.fine(p.Backend)
	if row := p.row(store.ResourceBackend); row.Identity != "B" || row.Found != "" || row.Accepted != "" || len(p.Problems()) != 0 {
		t.Errorf("%+v, problems %q", row, p.Problems())
	}
	if m := former.wrong(former.Backend); m.Expected != "B" || m.Found != "A" {
		t.Errorf("%+v", m)
	}
}

func TestAnotherEngineThanTheAcceptedOneIsRefused(t *testing.T) {
	p := first(t, newPlace(t))
	p.engine.become("B")
	p.wrong(p.Backend)
	p.accept(store.ResourceBackend)
	p.engine.become("C")
	if m := p.wrong(p.Backend); m.Expected != "A" || m.Found != "C" {
		t.Errorf("%+v", m)
	}
	// The one that was expected is back: nothing of the acceptance is left.
	p.engine.become("A")
	p.fine(p.Backend)
	p.engine.become("B")
	p.wrong(p.Backend)
}

// One process has the right settings and the other does not. The right one must not take
// the other's finding back at once: it would be written again with every look.
func TestAHealthyProcessDoesNotTakeBackWhatAnotherOneFinds(t *testing.T) {
	p := first(t, newPlace(t))
	wrong := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "B"}, nil)
	wrong.wrong(wrong.Backend)
	p.fine(p.Backend)
	if p.row(store.ResourceBackend).Found != "B" || len(p.Problems()) != 1 {
		t.Errorf("%+v, problems %q", p.row(store.ResourceBackend), p.Problems())
	}
	p.exec("UPDATE system_identity SET found_at = now() - interval '30 s' WHERE resource = 'backend'")
	wrong.wrong(wrong.Backend)
	if ago := p.row(store.ResourceBackend).FoundAgo; ago > 20*time.Second {
		t.Errorf("the finding was last confirmed %s ago", ago)
	}
	// The other process has ended.
	p.exec("UPDATE system_identity SET found_at = now() - interval '2 min' WHERE resource = 'backend'")
	p.fine(p.Backend)
	if p.row(store.ResourceBackend).Found != "" || len(p.Problems()) != 0 {
		t.Errorf("%+v, problems %q", p.row(store.ResourceBackend), p.Problems())
	}
}

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

// The id of the database is in the dump.
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

func TestEnginesThatAreSeenFirstTogetherAreNotBothRecorded(t *testing.T) {
	db := storetest.Open(t)
	results := make(chan error, 8)
	for i := range 8 {
		p := newProcess(t, storetest.Reopen(t, db), "one", &engine{id: string(rune('A' + i%2))}, nil)
		go func() { results <- p.Backend(t.Context()) }()
	}
	fine := 0
	for range 8 {
		var mismatch *MismatchError
		switch err := <-results; {
		case err == nil:
			fine++
		case !errors.As(err, &mismatch):
			t.Error(err)
		}
	}
	if fine != 4 {
		t.Errorf("%d of 8 processes believe their engine, want those 4 with the recorded one", fine)
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
	// The same when a bucket is adopted.
	bucket.empty()
	p.wrong(p.Bucket)
	p.accept(store.ResourceBucket)
	crash()
	p.fine(p.Bucket)
	if got := generation(p.row(store.ResourceBucket).Identity); got != 2 {
		t.Errorf("generation %d", got)
	}
}

// Another process replaces the marker between the look and the write.
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
	// The same when a bucket is adopted: the accepted one is not there any more.
	p.accept(store.ResourceBucket)
	r.then = func() {
		bucket.empty()
		winner = first(t, bucket)
	}
	p.wrong(p.Bucket)
	winner.fine(winner.Bucket)
}

func TestWhatDoesNotAnswerIsNeitherRightNorWrong(t *testing.T) {
	p := first(t, newPlace(t))
	away := errors.New("away")
	unknown := func(what string, err error) {
		t.Helper()
		var mismatch *MismatchError
		if err == nil || errors.As(err, &mismatch) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", what, err)
		}
	}
	p.engine.err = away
	unknown("the engine is away", p.Backend(t.Context()))
	p.engine.err, p.engine.id = nil, ""
	unknown("the engine has no identity", p.Backend(t.Context()))
	for status, what := range map[int]string{http.StatusForbidden: "refuses", http.StatusServiceUnavailable: "is away"} {
		store, err := archive.New(archive.Options{Bucket: "bucket", AccessKey: "a", SecretKey: "b", Transport: func(http.RoundTripper) http.RoundTripper {
			return answer(status)
		}})
		if err != nil {
			t.Fatal(err)
		}
		q := newProcess(t, p.db, "one", p.engine, store)
		err = q.Bucket(t.Context())
		unknown("the store "+what, err)
		if !strings.Contains(err.Error(), what) || q.logs.Len() != 0 {
			t.Errorf("%v; logged %v", err, q.logs.All())
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	unknown("the caller gives up", p.Bucket(ended))
	p.db.Close()
	unknown("the database is away", p.Bucket(t.Context()))
	if p.logs.Len() != 0 || len(p.Problems()) != 0 {
		t.Errorf("logged %v, problems %q", p.logs.All(), p.Problems())
	}
}

// answer is a store that answers everything with one status.
type answer int

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(a), Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// silent is a bucket and a backend that never answer.
type silent struct{ Bucket }

func (silent) ReadMarker(ctx context.Context) (archive.Marker, error) {
	<-ctx.Done()
	return archive.Marker{}, ctx.Err()
}

func (silent) Identity(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

// recorded is a store in memory.
type recorded struct{ Store }

func (recorded) Identities(context.Context) (map[store.Resource]store.Identity, error) {
	return map[store.Resource]store.Identity{store.ResourceDatabase: {Identity: "D"}}, nil
}

func TestACheckIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New(recorded{}, silent{}, silent{}, "one", zap.NewNop())
		for _, check := range []func(context.Context) error{g.Backend, g.Bucket} {
			began := time.Now()
			if err := check(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != checkTimeout {
				t.Errorf("%v after %s", err, time.Since(began))
			}
		}
	})
}

// restless is a store in which another process always is quicker.
type restless struct{ recorded }

func (restless) RecordIdentity(context.Context, store.Resource, string, string) (bool, error) {
	return false, nil
}

func TestACheckThatIsOvertakenAgainAndAgainGivesUp(t *testing.T) {
	g := New(restless{}, &engine{Backend: memory.New(), id: "A"}, nil, "one", zap.NewNop())
	var mismatch *MismatchError
	if err := g.Backend(t.Context()); err == nil || errors.As(err, &mismatch) {
		t.Error(err)
	}
}
