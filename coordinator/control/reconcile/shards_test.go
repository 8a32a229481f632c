package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestShardsRunBesideEachOther: each shard that the process leads has a loop, which drives only the workspaces of its
// shard, under a term of its own.
func TestShardsRunBesideEachOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	started := make(chan string, 100)
	h.backend.Container = func(spec backend.StartSpec) (workspace.Container, error) {
		started <- fmt.Sprint(spec.ID.Shard(4), " ", spec.Term)
		return workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "127.0.0.1:1"}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 4)
	for _, shard := range []int{0, 2, 3} { // another process leads 1
		f := postgres.Fence{Lock: fmt.Sprint("coordinator/", shard), Epoch: int64(10 + shard)}
		storetest.Exec(t, h.store, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'test', $2)`, f.Lock, f.Epoch)
		go func() { done <- h.controller.Run(ctx, reconcile.Term{Fence: f, Shard: shard, Shards: 4}) }()
	}
	ids := make(map[int][]workspace.ID)
	for len(ids[0]) == 0 || len(ids[1]) == 0 || len(ids[2]) == 0 || len(ids[3]) == 0 {
		id := h.create()
		ids[id.Shard(4)] = append(ids[id.Shard(4)], id)
	}
	for shard, all := range ids {
		for _, id := range all {
			if shard != 1 {
				h.settles(id, workspace.PhaseRunning)
				var of, led, epoch int
				if _, err := fmt.Sscanf(<-started, "%d coordinator/%d:%d", &of, &led, &epoch); err != nil || led != of || epoch != 10+of {
					t.Errorf("a workspace of shard %d was started in term coordinator/%d:%d, %v", of, led, epoch, err)
				}
			}
		}
	}
	for _, id := range ids[1] {
		if w := h.row(id); w.Phase != workspace.PhasePending || w.Operation != workspace.OpNone {
			t.Errorf("a workspace of a shard that another process leads is %s %s", w.Phase, w.Operation)
		}
	}
	cancel()
	for range 3 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a loop ended with %v", err)
		}
	}
}

// countedStore is a store that counts what the controller reads.
type countedStore struct {
	*store.Store
	full, transitional atomic.Int32
	slow               chan struct{} // if set, a sweep waits for it
	swept              atomic.Int32
}

func (c *countedStore) Candidates(ctx context.Context, shard, shards int, transitionOnly bool) ([]workspace.Workspace, error) {
	if transitionOnly {
		c.transitional.Add(1)
	} else {
		c.full.Add(1)
	}
	return c.Store.Candidates(ctx, shard, shards, transitionOnly)
}

func (c *countedStore) SweepPage(ctx context.Context, shard, shards int, after workspace.ID, limit int) ([]workspace.Workspace, error) {
	c.swept.Add(1)
	if c.slow != nil {
		select {
		case <-c.slow:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return c.Store.SweepPage(ctx, shard, shards, after, limit)
}

// TestActiveTicksReadOnlyWhatChanges: workspaces that just run are read only at the idle interval. A tick that finds no
// rows does not call the backend.
func TestActiveTicksReadOnlyWhatChanges(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := &countedStore{Store: h.store}
	var lists atomic.Int32
	h.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Containers" {
			lists.Add(1)
		}
		return nil
	}
	h.database = c
	h.use(h.archives, h.log(), func(s *reconcile.Settings) {
		s.IdleInterval, s.ActiveInterval, s.SweepInterval = time.Hour, 5*time.Millisecond, time.Hour
	})
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	wait.Until(t, "what followed from the last change was looked at", func() bool {
		n, ticks := lists.Load(), c.transitional.Load()
		wait.Until(t, "a few ticks have passed", func() bool { return c.transitional.Load() > ticks+5 })
		return lists.Load() == n
	})
	full := c.full.Load()
	ticks := c.transitional.Load()
	wait.Until(t, "ticks follow each other", func() bool { return c.transitional.Load() > ticks+20 })
	if c.full.Load() != full {
		t.Errorf("%d full observations within the idle interval", c.full.Load()-full)
	}
}

// TestASlowSweepDelaysNobody.
func TestASlowSweepDelaysNobody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := &countedStore{Store: h.store, slow: make(chan struct{})}
	h.database = c
	h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.SweepInterval = 10 * time.Millisecond })
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredStandby, workspace.PhaseStandby)
	h.backend.LoseVolume(id)
	if c.swept.Load() != 1 {
		t.Errorf("%d sweeps at once", c.swept.Load())
	}
	close(c.slow)
	if w := h.settles(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("%s, want DataLost", w.ErrorReason)
	}
}

// registry is a backend that must pull images.
type registry struct {
	*memory.Backend
	here    atomic.Bool
	pulls   atomic.Int32
	release chan error
}

func (r *registry) Start(ctx context.Context, spec backend.StartSpec) error {
	if spec.Image != "" && !r.here.Load() {
		return &backend.MissingImageError{Image: spec.Image}
	}
	return r.Backend.Start(ctx, spec)
}

func (r *registry) Pull(ctx context.Context, _ string, progress func(done, total int64)) error {
	r.pulls.Add(1)
	progress(120e6, 540e6)
	select {
	case err := <-r.release:
		r.here.Store(err == nil)
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestAnImageIsPulledOnceForAll waiting workspaces, beside everything else. Its failure reaches all of them.
func TestAnImageIsPulledOnceForAll(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := &registry{Backend: h.backend, release: make(chan error)}
	h.engine, h.images = r, r
	h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.MaxConcurrent = 1 })
	var waiting []workspace.ID
	for range 3 {
		id := h.create()
		storetest.Exec(t, h.store, `UPDATE workspaces SET image_ref = 'large:1' WHERE id = $1`, string(id))
		waiting = append(waiting, id)
	}
	h.lead()
	all := func(want func(id workspace.ID)) {
		for _, id := range waiting {
			want(id)
		}
	}
	pulling := func(id workspace.ID) {
		w := h.waits(id, workspace.WaitPullingImage)
		if w.Operation != workspace.OpStarting || !strings.Contains(w.Waiting.Message, "pulling 120 of 540 MB") {
			h.await(id, "the progress", func(w workspace.Workspace) bool {
				return w.Waiting != nil && strings.Contains(w.Waiting.Message, "pulling 120 of 540 MB")
			})
		}
	}
	all(pulling)
	h.settles(h.create(), workspace.PhaseRunning) // it needs no pull
	r.release <- errors.New("manifest unknown")
	all(func(id workspace.ID) {
		w := h.settles(id, workspace.PhaseError)
		if w.ErrorReason != workspace.ReasonImagePullFailed || !strings.Contains(w.ErrorMessage, "manifest unknown") || w.Waiting != nil {
			t.Errorf("%s %q", w.ErrorReason, w.ErrorMessage)
		}
	})
	if r.pulls.Load() != 1 {
		t.Errorf("%d pulls, want 1", r.pulls.Load())
	}
	all(func(id workspace.ID) {
		storetest.Exec(t, h.store, `UPDATE workspaces SET error_reason = NULL, error_count = 0 WHERE id = $1`, string(id))
	})
	h.controller.Wake(waiting...)
	all(pulling)
	r.release <- nil
	all(func(id workspace.ID) {
		if w := h.settles(id, workspace.PhaseRunning); w.Waiting != nil {
			t.Errorf("running, and waits for %s", w.Waiting.Reason)
		}
	})
	if r.pulls.Load() != 2 {
		t.Errorf("%d pulls, want 2", r.pulls.Load())
	}
}

// TestProgressExtendsTheTimeout: an operation with progress is not late.
func TestProgressExtendsTheTimeout(t *testing.T) {
	t.Parallel()
	const limit = 5 * time.Second // a busy machine, or the race detector, is slower than a second between two looks
	h := newHarness(t)
	b := &working{Backend: h.backend}
	h.engine = b
	h.use(h.archives, h.log(), func(s *reconcile.Settings) {
		s.Timeouts = planner.DefaultTimeouts()
		s.Timeouts[workspace.OpArchiving] = limit
	})
	release := make(chan struct{})
	succeed := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		select {
		case <-release:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		return succeed(ctx, spec)
	}
	b.moves.Store(true)
	id := h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredArchived)
	w := h.await(id, "the upload", func(w workspace.Workspace) bool { return w.Operation == workspace.OpArchiving })
	wait.Until(t, "it takes three times its limit", func() bool { return time.Since(w.OpStartedAt) > 3*limit })
	if n := h.row(id); n.Operation != workspace.OpArchiving || !n.OpStartedAt.Equal(w.OpStartedAt) || n.Waiting != nil {
		t.Errorf("%s since %s, want the same operation", n.Operation, n.OpStartedAt)
	}
	b.moves.Store(false)
	if n := h.waits(id, workspace.WaitArchiveFailed); n.Phase != workspace.PhaseStandby {
		t.Errorf("%s, want STANDBY", n.Phase)
	}
	close(release)
	h.settles(id, workspace.PhaseArchived)
}

// working is a backend whose jobs report progress.
type working struct {
	*memory.Backend
	moves atomic.Bool
	bytes atomic.Int64
}

func (b *working) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	found, err := b.Backend.Jobs(ctx, ids...)
	n := b.bytes.Load()
	if b.moves.Load() {
		n = b.bytes.Add(1)
	}
	for _, jobs := range found {
		for i := range jobs {
			jobs[i].Progress = fmt.Sprint(n)
		}
	}
	return found, err
}
