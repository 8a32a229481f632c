package identity

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { wait.Main(m) }

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

// TestAnotherEngineIsRefusedUntilTheRightOneIsBack: another engine, or the same one with an emptied data folder, has a
// new id.
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
	p.fine(p.Bucket) // each check is independent
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
	// The expected engine is back: nothing of the acceptance is left.
	p.engine.become("A")
	p.fine(p.Backend)
	p.engine.become("B")
	p.wrong(p.Backend)
}

// TestAHealthyProcessDoesNotTakeBackWhatAnotherOneFinds: one process has the right settings, the other one does not.
// The process with the right settings must not withdraw the other's finding immediately: the other process would write
// it again with every check.
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

// TestAnAlarmEndsWithItsCause: while a process with the wrong bucket runs, all processes report the mismatch. Once that
// process has ended, none does. Meanwhile, nothing else checks the bucket.
func TestAnAlarmEndsWithItsCause(t *testing.T) {
	ctx := t.Context()
	p := first(t, newPlace(t))
	other := newPlace(t)
	wrong := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "A"}, other)
	third := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "A"}, nil)
	wrong.wrong(wrong.Bucket)
	age := func(by string) {
		t.Helper()
		p.exec("UPDATE system_identity SET found_at = now() - interval '" + by + "' WHERE resource = 'bucket'")
	}
	for range 3 {
		age("50 s")
		wrong.follow(ctx) // no other check has run since; follow repeats it and finds the same
		p.follow(ctx)
		third.follow(ctx)
		if row := p.row(store.ResourceBucket); row.Found == "" || row.FoundAgo > reconfirm || len(p.Problems()) != 1 || len(third.Problems()) != 1 {
			t.Fatalf("%+v, problems %q and %q", row, p.Problems(), third.Problems())
		}
	}
	// The process has ended.
	age("61 s")
	p.follow(ctx)
	third.follow(ctx)
	if row := p.row(store.ResourceBucket); row.Found != "" || len(p.Problems())+len(third.Problems()) != 0 {
		t.Errorf("%+v, problems %q and %q", row, p.Problems(), third.Problems())
	}
	for _, healthy := range []*process{p, third} {
		logs := healthy.logs.All()
		if len(logs) != 2 || logs[0].Level != zap.WarnLevel || logs[1].Level != zap.InfoLevel {
			t.Errorf("logged %v", logs)
		}
	}
}

// TestAnAlarmThatIsTakenBackElsewhere: another process withdraws a process's alarm, or an administrator accepts the
// identity. After that, the process reports other processes' alarms again, and does not change them.
func TestAnAlarmThatIsTakenBackElsewhere(t *testing.T) {
	ctx := t.Context()
	p := first(t, newPlace(t))
	here := newPlace(t)
	moved := newProcess(t, storetest.Reopen(t, p.db), "one", &engine{id: "A"}, here)
	moved.wrong(moved.Bucket)
	p.exec("UPDATE system_identity SET found = NULL, found_at = NULL WHERE resource = 'bucket'")
	moved.note(store.ResourceBucket, moved.row(store.ResourceBucket), true)
	moved.matched(ctx, store.ResourceBucket, moved.row(store.ResourceBucket))
	p.exec("UPDATE system_identity SET found = 'another', found_at = now() WHERE resource = 'bucket'")
	moved.follow(ctx)
	if row := p.row(store.ResourceBucket); row.Found != "another" {
		t.Errorf("it has taken back another process's alarm: %+v", row)
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

// restless is a store in which another process is always faster.
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
