package pressure_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// disk is as full as the test sets it.
type disk struct {
	mu    sync.Mutex
	used  int64 // of 100
	err   error
	asked int
}

func (d *disk) set(used int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used, d.err = used, err
}

func (d *disk) Disk(context.Context) (backend.Disk, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	return backend.Disk{Total: 100, Free: 100 - d.used}, d.err
}

// harness is a watch over a real database.
type harness struct {
	t     *testing.T
	store *store.Store
	owner string
	disk  disk
	leads atomic.Bool
	full  atomic.Pointer[workspace.FullDisk] // what the controller was told last
	room  atomic.Int32                       // how often it was told that there is room again
	log   *observer.ObservedLogs
	watch *pressure.Watch
}

func newHarness(t *testing.T, change func(*pressure.Settings)) *harness {
	st := storetest.Open(t)
	core, log := observer.New(zapcore.InfoLevel)
	h := &harness{t: t, store: st, owner: storetest.AddUser(t, st), log: log}
	h.leads.Store(true)
	s := pressure.DefaultSettings()
	s.Interval = 10 * time.Millisecond
	if change != nil {
		change(&s)
	}
	h.watch = pressure.New(pressure.Options{
		Backend: &h.disk, Store: st, Archiver: service.New(st, service.Options{}), Leads: h.leads.Load, Controller: h, Log: zap.New(core),
	}, s)
	return h
}

// SetFullDisk implements [pressure.Controller].
func (h *harness) SetFullDisk(d *workspace.FullDisk) {
	if was := h.full.Swap(d); was != nil && d == nil {
		h.room.Add(1)
	}
}

// run runs Run and Sweep of the watch until the end of the test.
func (h *harness) run() {
	ctx, cancel := context.WithCancel(h.t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.watch.Run(ctx) })
	wg.Go(func() { _ = h.watch.Sweep(ctx) })
	h.t.Cleanup(func() { cancel(); wg.Wait() })
}

// asleep adds a workspace that has been asleep for that many minutes.
func (h *harness) asleep(minutes int, bytes int64) workspace.ID {
	h.t.Helper()
	w, _, err := h.store.Create(h.t.Context(), workspace.Workspace{ID: workspace.ID(uuid.NewString()), OwnerID: h.owner, Name: "w", InstanceBackend: "docker", StorageBackend: "docker"}, "test", store.Limits{})
	if err != nil {
		h.t.Fatal(err)
	}
	storetest.Exec(h.t, h.store, `UPDATE workspaces SET phase = 'STANDBY', desired_state = 'STANDBY', home_bytes = $3, home_measured_at = now(),
		phase_changed_at = now() - make_interval(mins => $2) WHERE id = $1`, string(w.ID), minutes, bytes)
	return w.ID
}

func (h *harness) desired(id workspace.ID) workspace.DesiredState {
	return storetest.Row(h.t, h.store, id).DesiredState
}

// leaving waits until exactly these are on their way to archives.
func (h *harness) leaving(ids ...workspace.ID) {
	h.t.Helper()
	for _, id := range ids {
		wait.Until(h.t, "a workspace to be archived", func() bool { return h.desired(id) == workspace.DesiredArchived })
	}
	if n := storetest.Value[int64](h.t, h.store, `SELECT count(*) FROM workspaces WHERE desired_state = 'ARCHIVED'`); n != int64(len(ids)) {
		h.t.Fatalf("%d workspaces are being archived, want %d", n, len(ids))
	}
}

// seen waits for further measurements of the disk, so that everything before has taken effect.
func (h *harness) seen() {
	h.t.Helper()
	h.disk.mu.Lock()
	until := h.disk.asked + 3
	h.disk.mu.Unlock()
	wait.Until(h.t, "the disk to be seen", func() bool {
		h.disk.mu.Lock()
		defer h.disk.mu.Unlock()
		return h.disk.asked >= until
	})
}

// While the object store is away and archivings cannot finish, no further workspaces are archived to make room.
func TestWhoWaitsForTheStoreIsOnItsWay(t *testing.T) {
	h := newHarness(t, nil)
	var sleepers []workspace.ID
	for minutes := range 6 {
		sleepers = append(sleepers, h.asleep(10*(6-minutes), 1))
	}
	h.disk.set(86, nil)
	h.run()
	h.leaving(sleepers[:4]...)
	storetest.Exec(t, h.store, `UPDATE workspaces SET waiting = '{"reason":"StoreAway","message":"","since":"2026-05-06T14:00:00Z"}' WHERE desired_state = 'ARCHIVED'`)
	h.seen()
	h.leaving(sleepers[:4]...)
}

func TestTheLongestAsleepMakeRoom(t *testing.T) {
	h := newHarness(t, nil)
	var sleepers []workspace.ID
	for minutes := range 7 {
		sleepers = append(sleepers, h.asleep(10*(7-minutes), 1)) // the longest first
	}
	fresh, failed, running := h.asleep(0, 1), h.asleep(1000, 1), h.asleep(1000, 1)
	storetest.Exec(t, h.store, `UPDATE workspaces SET desired_state = 'RUNNING', phase = 'RUNNING' WHERE id = $1`, string(running))
	// A workspace whose archiving has failed is retried in any case. It does not count against the limit of concurrent
	// archivings.
	storetest.Exec(t, h.store, `UPDATE workspaces SET waiting = '{"reason":"ArchiveFailed","message":"","since":"2026-05-06T14:00:00Z"}' WHERE id = $1`, string(failed))
	h.disk.set(84, nil)
	h.run()
	h.seen()
	h.leaving() // below the mark
	h.disk.set(86, nil)
	h.leaving(sleepers[:4]...)
	h.seen()
	h.leaving(sleepers[:4]...) // a few at a time
	storetest.Exec(t, h.store, `UPDATE workspaces SET phase = 'ARCHIVED', desired_state = 'STANDBY' WHERE id = ANY($1::uuid[])`, texts(sleepers[:2]))
	h.disk.set(83, nil) // below the mark, but not far enough
	wait.Until(t, "the next ones", func() bool { return h.desired(sleepers[5]) == workspace.DesiredArchived })
	if h.desired(sleepers[6]) != workspace.DesiredStandby || h.desired(fresh) != workspace.DesiredStandby || h.desired(running) != workspace.DesiredRunning {
		t.Error("too many were archived, or the wrong ones")
	}
	cause := storetest.Value[string](t, h.store, `SELECT cause FROM workspace_history WHERE workspace_id = $1 AND new_value = 'ARCHIVED'`, string(sleepers[0]))
	message := storetest.Value[string](t, h.store, `SELECT message FROM workspace_history WHERE workspace_id = $1 AND new_value = 'ARCHIVED'`, string(sleepers[0]))
	if cause != "disk" || !strings.Contains(message, "86% full") {
		t.Errorf("the history says %q, %q", cause, message)
	}
	h.disk.set(79, nil)
	wait.Until(t, "the end of the pressure", func() bool { return !h.watch.State().Pressed })
	if n := h.log.FilterMessageSnippet("fills up").Len(); n != 1 {
		t.Errorf("%d lines about its begin", n)
	}
	if n := h.log.FilterMessageSnippet("is room").Len(); n != 1 {
		t.Errorf("%d lines about its end", n)
	}
}

// The space of workspaces that are being archived counts as free already, as far as their sizes are known.
func TestNoMoreThanNeeded(t *testing.T) {
	h := newHarness(t, nil)
	leaving, next := h.asleep(20, 10), h.asleep(10, 1)
	storetest.Exec(t, h.store, `UPDATE workspaces SET desired_state = 'ARCHIVED' WHERE id = $1`, string(leaving))
	h.disk.set(88, nil)
	h.run()
	h.seen()
	if h.desired(next) != workspace.DesiredStandby {
		t.Error("a workspace is archived although the one before makes room enough")
	}
	h.disk.set(91, nil)
	h.leaving(leaving, next)
}

func TestFull(t *testing.T) {
	h := newHarness(t, nil)
	h.asleep(10, 1)
	h.run()
	for _, c := range []struct {
		used int64
		full bool
	}{{94, false}, {95, true}, {94, true}, {93, true}, {92, false}, {94, false}, {99, true}} {
		h.disk.set(c.used, nil)
		h.seen()
		if got := h.full.Load(); (got != nil) != c.full {
			t.Errorf("at %d%%: %v", c.used, got)
		}
	}
	wait.Until(t, "it to be known who makes room", func() bool {
		full := h.full.Load()
		return full != nil && *full == workspace.FullDisk{Percent: 99, Leaving: 1}
	})
	h.disk.set(99, errors.New("away"))
	h.seen()
	if h.full.Load() == nil {
		t.Error("an engine that is away for a moment made room")
	}
	h.disk.set(99, backend.ErrUnknownDisk)
	wait.Until(t, "nothing to be known", func() bool { return h.full.Load() == nil })
	if n := h.room.Load(); n != 2 {
		t.Errorf("those who wait were told %d times that there is room", n)
	}
	h.disk.set(99, nil)
	wait.Until(t, "the disk to be full", func() bool { return h.full.Load() != nil })
	h.watch.Set(pressure.Settings{Interval: time.Millisecond})
	wait.Until(t, "no workspace waits with it off", func() bool { return h.full.Load() == nil && !h.watch.State().Known })
}

// TestOnlyTheLeaderLooks: a measurement from an earlier term does not count in the next one.
func TestOnlyTheLeaderLooks(t *testing.T) {
	h := newHarness(t, nil)
	h.disk.set(99, nil)
	h.run()
	wait.Until(t, "the disk to be full", func() bool { return h.full.Load() != nil })
	h.leads.Store(false)
	wait.Until(t, "nothing to be known", func() bool { return !h.watch.State().Known && h.full.Load() == nil })
	h.leads.Store(true)
	wait.Until(t, "the disk to be full", func() bool { return h.full.Load() != nil })
}

func TestSettings(t *testing.T) {
	if err := pressure.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		archive, stop float64
		wrong         string
	}{{0, 0, ""}, {0.5, 0, ""}, {0, 0.5, ""}, {0.5, 0.4, "stop_at"}, {0.5, 0.5, "stop_at"}, {-0.1, 0.5, "archive_at"}, {0.5, 1.1, "stop_at"}} {
		err := pressure.Settings{ArchiveAt: c.archive, StopAt: c.stop, Interval: time.Second}.Validate()
		if (err != nil) != (c.wrong != "") || err != nil && !strings.HasPrefix(err.Error(), "disk_pressure "+c.wrong) {
			t.Errorf("%v, %v: %v", c.archive, c.stop, err)
		}
	}
}

func texts(ids []workspace.ID) (out []string) {
	for _, id := range ids {
		out = append(out, string(id))
	}
	return out
}
