package reconcile_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// meter counts how many callers are inside, and the peak.
type meter struct{ now, peak atomic.Int32 }

// enter returns the function to call at the end.
func (m *meter) enter() (leave func()) {
	n := m.now.Add(1)
	for peak := m.peak.Load(); n > peak && !m.peak.CompareAndSwap(peak, n); peak = m.peak.Load() {
	}
	return func() { m.now.Add(-1) }
}

// held makes archive jobs wait until its gate is closed, and counts them.
type held struct {
	archives meter
	gate     chan struct{}
}

// holdJobs holds the archive jobs until the gate is closed. Restores continue.
func (h *harness) holdJobs() *held {
	held := &held{gate: make(chan struct{})}
	work := h.backend.Work
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind == workspace.JobRestore {
			return work(ctx, spec)
		}
		defer held.archives.enter()()
		select {
		case <-held.gate:
		case <-ctx.Done():
		}
		return work(ctx, spec)
	}
	return held
}

// places returns the positions in the queue of those workspaces that wait for their storage jobs, in ascending order.
func (h *harness) places(ids []workspace.ID) (before []int) {
	for _, id := range ids {
		if w := h.row(id); w.Waiting != nil && w.Waiting.Reason == workspace.WaitJobQueue && w.Operation == workspace.OpNone {
			before = append(before, w.Waiting.Before)
		}
	}
	slices.Sort(before)
	return before
}

// queues waits until they have these places.
func (h *harness) queues(ids []workspace.ID, want ...int) {
	h.t.Helper()
	wait.Until(h.t, "the queue to stand", func() bool { return slices.Equal(h.places(ids), want) })
}

// letGo lets the archive jobs end, and fails the test if more than two of them ran concurrently.
func (h *harness) letGo(jobs *held, ids []workspace.ID) {
	h.t.Helper()
	close(jobs.gate)
	for _, id := range ids {
		if w := h.settles(id, workspace.PhaseArchived); w.ErrorCount != 0 || w.Waiting != nil {
			h.t.Errorf("archived after %d failures, waits for %+v", w.ErrorCount, w.Waiting)
		}
	}
	if n := jobs.archives.peak.Load(); n != 2 {
		h.t.Errorf("%d archives at once, want 2", n)
	}
}

// TestStorageJobsAreBounded: of many homes that expire at the same time, only a few are archived concurrently. The
// others show their position in the queue, and one place is kept for people. A queued workspace can be opened
// immediately. An owner with many jobs does not hold up the job of another owner.
func TestStorageJobsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	jobs := h.holdJobs()
	h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.MaxJobs = 3 })
	h.lead()
	stored := h.create()
	h.settles(stored, workspace.PhaseRunning)
	close(jobs.gate)
	h.setDesired(stored, workspace.DesiredArchived)
	h.settles(stored, workspace.PhaseArchived)
	jobs.gate = make(chan struct{})

	var ids []workspace.ID
	for range 8 {
		ids = append(ids, h.asleep(workspace.DesiredArchived))
	}
	h.controller.Wake(ids...)
	h.queues(ids, 0, 1, 2, 3, 4, 5)
	wait.Until(t, "two archives to run", func() bool { return jobs.archives.now.Load() == 2 })
	// Another owner's job goes before them.
	ann := h.owner
	h.owner = service.Actor{UserID: storetest.AddUser(t, h.store), Through: "test"}
	other := h.asleep(workspace.DesiredArchived)
	h.owner = ann
	h.controller.Wake(other)
	h.queues([]workspace.ID{other}, 0)
	h.queues(ids, 1, 2, 3, 4, 5, 6)
	// A person gets the reserved place, and opens a queued workspace.
	h.setDesired(stored, workspace.DesiredRunning)
	h.settles(stored, workspace.PhaseRunning)
	for i, id := range ids {
		if h.row(id).Waiting != nil {
			h.setDesired(id, workspace.DesiredRunning)
			if w := h.settles(id, workspace.PhaseRunning); w.Waiting != nil || w.ArchiveKey != "" {
				t.Errorf("opened, it waits for %+v and was archived as %q", w.Waiting, w.ArchiveKey)
			}
			ids = slices.Delete(ids, i, i+1)
			break
		}
	}
	h.queues(ids, 1, 2, 3, 4, 5)
	h.letGo(jobs, append(ids, other))
}

// TestAnotherLeaderCountsWhatRuns: under a new leader, the running jobs of the former one still count against the
// limit, and the waiting workspaces keep their places in the queue.
func TestAnotherLeaderCountsWhatRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	jobs := h.holdJobs()
	few := func(s *reconcile.Settings) { s.MaxJobs = 3 }
	h.use(h.archives, h.log(), few)
	h.lead()
	var ids []workspace.ID
	for range 5 {
		ids = append(ids, h.asleep(workspace.DesiredArchived))
	}
	h.controller.Wake(ids...)
	h.queues(ids, 0, 1, 2)
	wait.Until(t, "the others have begun", func() bool { return jobs.archives.now.Load() == 2 })
	before := make(map[workspace.ID]workspace.Waiting)
	for _, id := range ids {
		if w := h.row(id).Waiting; w != nil {
			before[id] = *w
		}
	}
	h.resign()
	late := h.asleep(workspace.DesiredArchived)
	h.use(h.archives, h.log(), few)
	h.lead()
	h.queues(append(ids, late), 0, 1, 2, 3)
	for id, was := range before {
		if w := h.row(id).Waiting; w == nil || !w.Since.Equal(was.Since) || w.Before != was.Before {
			t.Errorf("waited as %+v, and under the next leader as %+v", was, w)
		}
	}
	h.letGo(jobs, append(ids, late))
}

// TestProcessesShareTheLimit: jobs started by another process count.
func TestProcessesShareTheLimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	jobs := h.holdJobs()
	var first, second []workspace.ID
	for len(first) < 5 || len(second) < 2 {
		id := h.asleep(workspace.DesiredArchived)
		if id.Shard(2) == 0 {
			first = append(first, id)
		} else {
			second = append(second, id)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 2)
	run := func(shard int) {
		h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.MaxJobs = 4 })
		f := postgres.Fence{Lock: "coordinator", Epoch: int64(shard + 1)}
		if shard > 0 {
			f.Lock = "coordinator/1"
		}
		storetest.Exec(t, h.store, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'test', $2)`, f.Lock, f.Epoch)
		c := h.controller
		go func() {
			done <- c.Run(ctx, reconcile.Term{Fence: f, Shard: shard, Shards: 2, Lease: func() bool { return true }})
		}()
	}
	run(0)
	wait.Until(t, "as many as one process starts", func() bool {
		return len(h.places(first)) == len(first)-3 && jobs.archives.now.Load() == 3
	})
	run(1)
	wait.Until(t, "the others to wait", func() bool { return len(h.places(second)) == len(second) })
	if n := jobs.archives.now.Load(); n != 3 {
		t.Errorf("%d archives run, want 3", n)
	}
	close(jobs.gate)
	for _, id := range slices.Concat(first, second) {
		h.settles(id, workspace.PhaseArchived)
	}
	cancel()
	<-done
	<-done
}

// TestAWakeUpDoesNotWaitForRemovals: while volumes are removed one after the other, calls that people wait for still
// get their turns.
func TestAWakeUpDoesNotWaitForRemovals(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	release := make(chan struct{})
	var removals meter
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if method != "DeleteVolume" {
			return nil
		}
		defer removals.enter()()
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.MaxConcurrent, s.MaxJobs = 2, 20 })
	h.lead()
	var ids []workspace.ID
	for range 8 {
		ids = append(ids, h.asleep(workspace.DesiredArchived))
	}
	h.controller.Wake(ids...)
	for _, id := range ids {
		h.await(id, "its archive", func(w workspace.Workspace) bool { return w.ArchiveKey != "" })
	}
	wait.Until(t, "removals", func() bool { return removals.now.Load() > 1 })
	opened := h.asleep(workspace.DesiredRunning)
	h.controller.Wake(opened)
	h.settles(opened, workspace.PhaseRunning)
	h.settles(h.create(), workspace.PhaseRunning)
	for _, id := range ids {
		if w := h.row(id); w.Operation != workspace.OpArchiving || w.Phase != workspace.PhaseStandby {
			t.Errorf("%s %s while its volume cannot be removed", w.Phase, w.Operation)
		}
	}
	close(release)
	for _, id := range ids {
		h.settles(id, workspace.PhaseArchived)
	}
}

// TestWhatAPersonWaitsForGoesFirst: a start for which a person waits gets the next turn, although calls that stop
// containers have waited longer.
func TestWhatAPersonWaitsForGoesFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var mu sync.Mutex
	var order []string
	var slow atomic.Bool
	step, stopping := make(chan struct{}), make(chan struct{}, 20)
	h.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if !slow.Load() || method != "Delete" && method != "Start" {
			return nil
		}
		mu.Lock()
		order = append(order, method)
		mu.Unlock()
		stopping <- struct{}{}
		select {
		case <-step:
		case <-ctx.Done():
		}
		return ctx.Err()
	}
	h.use(h.archives, h.log(), func(s *reconcile.Settings) { s.MaxConcurrent = 1 })
	h.lead()
	var ids []workspace.ID
	for range 4 {
		id := h.create()
		h.settles(id, workspace.PhaseRunning)
		ids = append(ids, id)
	}
	opened, later := h.asleep(workspace.DesiredStandby), h.asleep(workspace.DesiredStandby)
	slow.Store(true)
	for _, id := range ids {
		h.setDesired(id, workspace.DesiredStandby)
	}
	<-stopping
	for _, id := range ids {
		h.await(id, "its turn to stop", func(w workspace.Workspace) bool { return w.Operation == workspace.OpStopping })
	}
	// A row shows an operation just before the operation's call begins to wait for its turn. So when a later decision
	// is visible, the calls of all earlier decisions are waiting already.
	for _, id := range []workspace.ID{opened, later} {
		h.setDesired(id, workspace.DesiredRunning)
		h.await(id, "its turn to start", func(w workspace.Workspace) bool { return w.Operation == workspace.OpStarting })
	}
	close(step)
	h.settles(opened, workspace.PhaseRunning)
	h.settles(later, workspace.PhaseRunning)
	for _, id := range ids {
		h.settles(id, workspace.PhaseStandby)
	}
	if i := slices.Index(order, "Start"); i != 1 {
		t.Errorf("the wake-up was number %d of %q, want 1", i, order)
	}
}
