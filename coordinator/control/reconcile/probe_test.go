package reconcile

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/workspace"
)

// present is an object store with one archive.
type present struct{ Archives }

func (present) Stat(context.Context, string) (archive.Info, error) { return archive.Info{Size: 7}, nil }
func (present) Versions(context.Context, workspace.ID) ([]workspace.ArchiveVersion, error) {
	return nil, fs.ErrNotExist
}

// recorded is the recorded bucket.
type recorded struct{ Identity }

func (recorded) Bucket(context.Context) error { return nil }

// TestASlowBackendDoesNotMakeAnswersTooOld: the object store has answered, and then listing takes the backend longer
// than an answer stays fresh. The decision is made nevertheless. Otherwise the store would be asked forever.
func TestASlowBackendDoesNotMakeAnswersTooOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(New(Options{Log: testlog.New(t), Archives: present{}, Identity: recorded{}}), Term{})
		w := workspace.Workspace{
			ID: "w", ArchiveKey: "w/a/home.tar.zst", Operation: workspace.OpNone,
			Phase: workspace.PhaseArchived, DesiredState: workspace.DesiredArchived,
		}
		s := l.of(w.ID)
		answer, err := observation.Store{Archives: present{}}.Ask(t.Context(), observation.Question{Row: w, Archive: true})
		if err != nil {
			t.Fatal(err)
		}
		s.answer = &answer
		began := time.Now()
		time.Sleep(observeTimeout) // the listing; the time is the test's
		if c, decided := l.prepare(t.Context(), w, snapshot{began: began}, l.policy()); !decided || c.observation.Archive != workspace.Present {
			t.Errorf("the answer is not used: %+v", c.observation)
		}
		if s.busy {
			t.Error("the store is asked again")
		}
		// An answer that was too old when the observation began is not used.
		s.answer = &answer
		if _, decided := l.prepare(t.Context(), w, snapshot{began: time.Now()}, l.policy()); decided {
			t.Error("an old answer is used")
		}
		<-l.results // of the new request
		l.wg.Wait()
	})
}
