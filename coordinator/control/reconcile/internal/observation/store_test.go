package observation

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/workspace"
)

// silence is an object store that has not answered when the probe gives up.
type silence struct {
	Archives
	wait func()
}

func (s silence) Stat(context.Context, string) (archive.Info, error) {
	s.wait()
	return archive.Info{}, fmt.Errorf("reading: %w", context.DeadlineExceeded)
}

// TestThatAStoreIsSilentIsKnownAfterTheProbe: if a probe has waited in vain for all of its time, its result is used,
// although more time has passed than an answer stays valid. Otherwise the store would be asked again and again, and a
// waiting user would never learn the cause.
func TestThatAStoreIsSilentIsKnownAfterTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := Store{Archives: silence{wait: func() { time.Sleep(StoreTimeout) }}}
		w := workspace.Workspace{ArchiveKey: "a/b/home.tar.zst"}
		p, err := s.Ask(t.Context(), Question{Row: w, Archive: true})
		if err == nil || p.Store.State != workspace.StoreAway {
			t.Errorf("a silent store: %+v, %v", p.Store, err)
		}
		if !p.About(time.Now(), w) {
			t.Error("what the probe has found out is not used")
		}
		if p.About(time.Now().Add(maxAge), w) {
			t.Error("what the probe has found out is used for ever")
		}
	})
}

// noBucket is an object store without the bucket.
type noBucket struct{ Archives }

func (noBucket) Stat(context.Context, string) (archive.Info, error) {
	return archive.Info{}, archive.ErrNoBucket
}

// foreign is the answer of a guard that has not found the recorded bucket.
type foreign struct{ Identity }

func (foreign) Bucket(context.Context) error {
	return &identity.MismatchError{Resource: "bucket", Expected: "ours", Found: "no bucket of that name"}
}

// TestAMissingBucketIsAMismatch: if the bucket does not exist, a workspace waits for an administrator without a limit.
// It is not treated as a store that refuses (SPEC 2).
func TestAMissingBucketIsAMismatch(t *testing.T) {
	s := Store{Archives: noBucket{}, Identity: foreign{}}
	w := workspace.Workspace{ArchiveKey: "a/b/home.tar.zst"}
	if p, err := s.Ask(t.Context(), Question{Row: w, Archive: true}); p.Store.State != workspace.StoreMismatch {
		t.Errorf("%+v, %v", p.Store, err)
	}
}
