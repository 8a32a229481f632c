package reconcile_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// bucket is the lab's object store with something in front of it.
type bucket struct {
	*archive.Store
	stat   func(key string) error
	create func() error
}

func (b *bucket) Stat(ctx context.Context, key string) (archive.Info, error) {
	if b.stat != nil {
		if err := b.stat(key); err != nil {
			return archive.Info{}, err
		}
	}
	return b.Store.Stat(ctx, key)
}

func (b *bucket) CreateEmpty(ctx context.Context, key string) error {
	if b.create != nil {
		if err := b.create(); err != nil {
			return err
		}
	}
	return b.Store.CreateEmpty(ctx, key)
}

// through makes the lab's controller ask b, and returns what it logs.
func (l *lab) through(b *bucket, change func(*reconcile.Settings)) *observer.ObservedLogs {
	core, logs := observer.New(zap.InfoLevel)
	b.Store = l.archives
	l.controller = reconcile.New(l.store, l.backend, b, uuid.NewString, zap.New(core))
	s := reconcile.DefaultSettings()
	s.IdleInterval, s.ActiveInterval = time.Second, 100*time.Millisecond
	if change != nil {
		change(&s)
	}
	l.controller.Apply(s)
	return logs
}

// TestDeposedWhileLookingAtTheArchive: the leadership is checked after the object
// store has taken its time, not before.
func TestDeposedWhileLookingAtTheArchive(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var looks, jobLists, dropped atomic.Int32
	var id workspace.ID
	l.through(&bucket{stat: func(key string) error {
		rows, err := l.store.Workspaces(t.Context(), []workspace.ID{id})
		if err != nil {
			return err
		}
		// The first look at the saved archive decides, the second is the actuator's.
		if rows[0].ArchiveKey == key && looks.Add(1) == 2 {
			l.epoch()
		}
		return nil
	}}, nil)
	over := make(chan struct{})
	l.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		switch {
		case method == "DeleteVolume":
			dropped.Add(1)
		case method == "Jobs" && looks.Load() >= 2 && jobLists.Add(1) == 3:
			close(over)
		}
		return nil
	}
	id = l.create()
	l.lead()
	l.rests(id, workspace.PhaseRunning)
	l.wish(id, workspace.DesiredArchived)
	<-over
	l.resign()
	if dropped.Load() != 0 {
		t.Error("a leader that was deposed while it asked the object store deleted the volume")
	}
}

// TestArchiveGoneWithoutAWord: that the archive of a deleted workspace is gone is
// found out also when the GC's word of it was lost.
func TestArchiveGoneWithoutAWord(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.through(&bucket{}, func(s *reconcile.Settings) { s.SweepInterval = 50 * time.Millisecond })
	l.lead()
	id := l.create()
	l.wish2(id, workspace.DesiredArchived, workspace.PhaseArchived)
	if err := l.service.Delete(t.Context(), l.owner, id); err != nil {
		t.Fatal(err)
	}
	l.controller.Wake(id)
	w := l.rests(id, workspace.PhaseDeleting)
	if _, err := l.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	l.rests(id, workspace.PhaseDeleted)
}

// TestObjectStoreAway: an operation that waits for its answer ends when its time is
// over, no condition changes, and the outage is told once.
func TestObjectStoreAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	away := errors.New("no answer")
	var asked, most, at atomic.Int32
	logs := l.through(&bucket{
		stat: func(string) error {
			for n, m := at.Add(1), most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			defer at.Add(-1)
			asked.Add(1)
			return away
		},
		create: func() error { return away },
	}, func(s *reconcile.Settings) {
		s.Timeouts = workspace.DefaultTimeouts()
		s.Timeouts[workspace.OpCreateEmptyArchive] = time.Nanosecond
	})
	var ids []workspace.ID
	for range 40 {
		ids = append(ids, l.create())
		l.wish(ids[len(ids)-1], workspace.DesiredArchived)
	}
	l.lead()
	for _, id := range ids {
		if w := l.rests(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonTimeout || w.Conditions.True(workspace.ArchiveReady) {
			t.Errorf("%s %q, want Timeout", w.ErrorReason, w.ErrorMessage)
		}
	}
	if n := logs.FilterMessageSnippet("object store").Len(); n != 1 || asked.Load() < 40 {
		t.Errorf("%d lines about the object store for %d questions, want 1", n, asked.Load())
	}
	if most.Load() > 16 {
		t.Errorf("%d questions at once", most.Load())
	}
}

// TestLockedRowHoldsUpItselfOnly: somebody's forgotten transaction is no reason for
// the others to wait.
func TestLockedRowHoldsUpItselfOnly(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	locked, free := l.create(), l.create()
	tx, err := l.store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), `SELECT FROM workspaces WHERE id = $1 FOR UPDATE`, string(locked)); err != nil {
		t.Fatal(err)
	}
	l.lead()
	l.rests(free, workspace.PhaseRunning)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.rests(locked, workspace.PhaseRunning)
}
