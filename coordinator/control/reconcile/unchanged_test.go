package reconcile_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// homes is a backend whose jobs report the state of the volume, as real jobs do.
type homes struct {
	reconcile.Backend
	h *harness

	mu      sync.Mutex // guards the following
	state   string     // of the volume
	results map[string]workspace.Job
}

// work does the work of a job. If the home is still in the state that the job was given, it makes no archive.
func (b *homes) work(ctx context.Context, spec backend.JobSpec) (int64, error) {
	given, key := "", ""
	for _, v := range spec.Env {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case contract.EnvFingerprint:
			given = value
		case contract.EnvArchiveURL:
			key = value[strings.Index(value, string(spec.ID)):]
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if spec.Kind == workspace.JobRestore {
		b.state = uuid.NewString()
	}
	if unchanged := spec.Kind == workspace.JobArchive && given == b.state; unchanged {
		b.results[spec.OpID] = workspace.Job{Unchanged: true, Fingerprint: b.state}
		return 0, nil
	}
	if spec.Kind == workspace.JobArchive {
		if err := b.h.archives.CreateEmpty(ctx, key); err != nil {
			return 0, err
		}
	}
	info, err := b.h.archives.Stat(ctx, key)
	b.results[spec.OpID] = workspace.Job{Fingerprint: b.state, SHA256: info.SHA256, Content: 5, Files: 1}
	return info.Size, err
}

// Jobs adds the jobs' reports.
func (b *homes) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	all, err := b.Backend.Jobs(ctx, ids...)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, jobs := range all {
		for i := range jobs {
			j, told := &jobs[i], b.results[jobs[i].OpID]
			if j.State == workspace.JobSucceeded {
				j.Unchanged, j.Fingerprint, j.SHA256, j.Content, j.Files = told.Unchanged, told.Fingerprint, told.SHA256, told.Content, told.Files
			}
		}
	}
	return all, err
}

// write changes the home.
func (b *homes) write() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = uuid.NewString()
}

// TestAHomeInWhichNothingChangedIsNotArchivedAgain, and the home of an older archive can be restored.
func TestAHomeInWhichNothingChangedIsNotArchivedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	home := &homes{Backend: h.backend, h: h, state: "made", results: make(map[string]workspace.Job)}
	h.backend.Work = home.work
	h.engine = home
	h.use(h.archives, h.log(), nil)
	h.lead()
	id := h.create()
	rounds := func() workspace.Workspace { // asleep, and awake again
		h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
		w := h.row(id)
		h.setDesired(id, workspace.DesiredRunning)
		h.settles(id, workspace.PhaseRunning)
		return w
	}
	known := func(key string) (a store.Archive) {
		t.Helper()
		all, err := h.store.Archives(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(all, func(a store.Archive) bool { return a.Key == key }); i >= 0 {
			return all[i]
		}
		return store.Archive{}
	}

	first := rounds()
	if a := known(first.ArchiveKey); a.Size == 0 || a.Content != 5 || a.SHA256 == "" || a.VerifiedAt.IsZero() {
		t.Errorf("of the first archive is recorded %+v", a) // verified by the restore
	}
	if again := rounds(); again.ArchiveKey != first.ArchiveKey || again.HomeCtx.Dirty || again.ArchiveOpID != "" {
		t.Errorf("nothing has changed, and the archive is %s with %+v", again.ArchiveKey, again.HomeCtx)
	}
	home.write()
	second := rounds()
	if second.ArchiveKey == first.ArchiveKey {
		t.Fatal("a change was not archived")
	}
	// The scrub has found the archive damaged: it is made again.
	if _, err := h.store.Archives(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	fence := h.fence
	for range 2 {
		// The restore's result is newer than the scrub's, because the scrub began before it.
		if _, err := h.store.Checked(t.Context(), fence, store.Archive{WorkspaceID: id, Key: second.ArchiveKey}, store.Check{Damage: "torn", Took: -time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if w := h.row(id); w.ArchiveDamage != "torn" {
		t.Fatalf("the damage is %q", w.ArchiveDamage)
	}
	third := rounds()
	if third.ArchiveKey == second.ArchiveKey || third.ArchiveDamage != "" {
		t.Errorf("a damaged archive is still the current one: %s, %q", third.ArchiveKey, third.ArchiveDamage)
	}

	// The user goes back to the first archive. The running workspace is archived before that, unless nothing has
	// changed.
	home.write()
	v := store.Viewer{UserID: h.owner.UserID, Through: "test"}
	if _, outcome, err := h.store.Revert(t.Context(), v, id, workspace.Revert{ID: "r", Key: first.ArchiveKey, At: time.Now()}, store.Limits{}); outcome != store.Changed || err != nil {
		t.Fatal(outcome, err)
	}
	h.controller.Wake(id)
	h.await(id, "the revert", func(w workspace.Workspace) bool { return !w.Reverting() })
	w := h.settles(id, workspace.PhaseRunning)
	if w.ArchiveKey != first.ArchiveKey || w.HomeCtx.RevertProblem != "" || w.HomeCtx.Replaced == "" || w.HomeCtx.Replaced == third.ArchiveKey ||
		w.HomeCtx.Newest != w.HomeCtx.Replaced || w.DesiredState != workspace.DesiredRunning {
		t.Errorf("reverted to %s, desired %s, with %+v", w.ArchiveKey, w.DesiredState, w.HomeCtx)
	}
	if _, err := h.archives.Stat(t.Context(), w.HomeCtx.Replaced); err != nil {
		t.Errorf("the way back: %v", err)
	}
	// It continues like any other: first unchanged, then with a change.
	if again := rounds(); again.ArchiveKey != first.ArchiveKey || again.HomeCtx.Replaced == "" {
		t.Errorf("nothing has changed since the revert: %s, %+v", again.ArchiveKey, again.HomeCtx)
	}
	home.write()
	if last := rounds(); last.ArchiveKey == first.ArchiveKey || last.HomeCtx.Replaced != "" || last.HomeCtx.Newest != "" {
		t.Errorf("the next archive is %s, %+v", last.ArchiveKey, last.HomeCtx)
	}

	// An older archive that is gone: everything stays as it is.
	if _, outcome, err := h.store.Revert(t.Context(), v, id, workspace.Revert{ID: "r2", Key: id.ArchiveKey(uuid.NewString()), At: time.Now()}, store.Limits{}); outcome != store.Changed || err != nil {
		t.Fatal(outcome, err)
	}
	h.controller.Wake(id)
	h.await(id, "the end of the revert", func(w workspace.Workspace) bool { return !w.Reverting() })
	if w := h.settles(id, workspace.PhaseRunning); w.HomeCtx.RevertProblem == "" {
		t.Errorf("the archive was never made, and there is no problem: %+v", w.HomeCtx)
	}
	kinds, err := h.store.History(t.Context(), id, 200, 0)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, k := range kinds {
		if k.Kind == store.KindReverted {
			count++
		}
	}
	if count != 2 {
		t.Errorf("%d reverts are in the history", count)
	}
}
