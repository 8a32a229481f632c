package reconcile

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

// silence is an object store that says nothing until the probe gives up.
type silence struct {
	Archives
	wait func()
}

func (s silence) Stat(context.Context, string) (archive.Info, error) {
	s.wait()
	return archive.Info{}, fmt.Errorf("reading: %w", context.DeadlineExceeded)
}

// TestThatAStoreIsSilentIsKnownAfterTheProbe: the answer of a probe that has waited for
// all of its time is used. Otherwise the store is asked again for ever, and whoever waits
// for the workspace never learns why.
func TestThatAStoreIsSilentIsKnownAfterTheProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Controller{archives: silence{wait: func() { time.Sleep(probeTimeout) }}}
		w := workspace.Workspace{ArchiveKey: "a/b/home.tar.zst"}
		p, err := (&loop{Controller: c}).probe(t.Context(), question{row: w, archive: true})
		if err == nil || p.store.State != workspace.StoreAway {
			t.Errorf("a silent store: %+v, %v", p.store, err)
		}
		if !p.answers(time.Now(), w, true, false) {
			t.Error("what the probe has found out is not used")
		}
		if p.answers(time.Now().Add(probeAge), w, true, false) {
			t.Error("what the probe has found out is used for ever")
		}
	})
}

// noBucket is an object store without the bucket.
type noBucket struct{ Archives }

func (noBucket) Stat(context.Context, string) (archive.Info, error) {
	return archive.Info{}, archive.ErrNoBucket
}

// foreign is what a guard says that has not found the recorded bucket.
type foreign struct{ Identity }

func (foreign) Bucket(context.Context) error {
	return &identity.MismatchError{Resource: "bucket", Expected: "ours", Found: "no bucket of that name"}
}

// TestAMissingBucketIsAMismatch: a workspace whose bucket is not there waits for an
// administrator, without a limit, and not for a store that refuses (SPEC 2).
func TestAMissingBucketIsAMismatch(t *testing.T) {
	c := &Controller{archives: noBucket{}, identity: foreign{}}
	w := workspace.Workspace{ArchiveKey: "a/b/home.tar.zst"}
	if p, err := (&loop{Controller: c}).probe(t.Context(), question{row: w, archive: true}); p.store.State != workspace.StoreMismatch {
		t.Errorf("%+v, %v", p.store, err)
	}
}
