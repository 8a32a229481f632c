package reconcile_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pulls counts the pulls of each image, and refuses some.
type pulls struct {
	mu      sync.Mutex
	count   map[string]int
	refused map[string]bool
}

func (r *pulls) fetch(_ context.Context, image string, _ func(done, total int64)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[image]++
	if r.refused[image] {
		return workspace.Fail(workspace.ReasonImagePullFailed, errors.New("manifest unknown"))
	}
	return nil
}

func (r *pulls) pulled() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.count)
}

// TestImagesArePulledAhead: the configured images and those of the workspaces in STANDBY are pulled, once each, and no
// others. An image that is removed is pulled again at the next look. An image that cannot be pulled does not block the
// others.
func TestImagesArePulledAhead(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	r := &pulls{count: map[string]int{}, refused: map[string]bool{"wrong:1": true}}
	h.backend.Fetch = r.fetch
	h.configured = []string{"configured:1", "wrong:1", memory.JobImage}
	core, logs := observer.New(zapcore.InfoLevel)
	h.use(h.archives, zap.New(core), nil)
	h.lead()
	asleep, awake, archived := h.createOf("asleep:1"), h.createOf("awake:1"), h.createOf("archived:1")
	unknown := h.createOf("asleep:1")
	h.settles(awake, workspace.PhaseRunning)
	h.reach(asleep, workspace.DesiredStandby, workspace.PhaseStandby)
	h.reach(archived, workspace.DesiredArchived, workspace.PhaseArchived)
	h.reach(unknown, workspace.DesiredStandby, workspace.PhaseStandby)
	storetest.Exec(t, h.store, `UPDATE workspaces SET image_ref = 'gone' WHERE id = $1`, string(unknown))
	forget := func() {
		for _, image := range []string{"configured:1", "wrong:1", memory.JobImage, "asleep:1", "awake:1", "archived:1"} {
			h.backend.Forget(image)
		}
	}
	forget()
	look := func(want map[string]int) {
		t.Helper()
		wait.Until(t, "the images are pulled", func() bool { return maps.Equal(r.pulled(), want) })
	}
	s := quick()
	s.PrepullInterval = time.Hour
	h.controller.Apply(s)
	look(map[string]int{"configured:1": 1, "wrong:1": 1, memory.JobImage: 1, "asleep:1": 1})
	forget()
	h.controller.Apply(s) // as a reload does
	look(map[string]int{"configured:1": 2, "wrong:1": 2, memory.JobImage: 2, "asleep:1": 2})
	h.controller.Apply(s)
	look(map[string]int{"configured:1": 2, "wrong:1": 3, memory.JobImage: 2, "asleep:1": 2})
	h.resign()
	var said []string
	for _, l := range logs.FilterMessageSnippet("ahead").All() {
		image, _ := l.ContextMap()["image"].(string)
		said = append(said, l.Level.String()+" "+image)
	}
	slices.Sort(said)
	want := []string{"info asleep:1", "info asleep:1", "info configured:1", "info configured:1", "info " + memory.JobImage,
		"info " + memory.JobImage, "warn "}
	slices.Sort(want)
	if !slices.Equal(said, want) {
		t.Errorf("the log says %q, want %q", said, want)
	}
}

// TestNothingIsPulledAhead: no image is pulled ahead while the setting is off, while the disk is full, and on an engine
// that is not the recorded one.
func TestNothingIsPulledAhead(t *testing.T) {
	t.Parallel()
	for name, hinder := range map[string]func(h *harness, s *reconcile.Settings) (undo func()){
		"off": func(h *harness, s *reconcile.Settings) func() {
			s.PrepullInterval = 0
			return func() { s.PrepullInterval = time.Millisecond }
		},
		"a full disk": func(h *harness, _ *reconcile.Settings) func() {
			h.controller.SetFullDisk(&workspace.FullDisk{Percent: 97})
			return func() { h.controller.SetFullDisk(nil) }
		},
		"another engine": func(h *harness, _ *reconcile.Settings) func() {
			wrong := errors.New("another engine answers")
			h.guard.backend.Store(&wrong)
			return func() { h.guard.backend.Store(nil) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			r := &pulls{count: map[string]int{}}
			h.backend.Fetch = r.fetch
			h.configured = []string{"configured:1"}
			h.backend.Forget("configured:1")
			h.use(h.archives, zap.NewNop(), nil)
			s := quick()
			s.PrepullInterval = time.Millisecond
			undo := hinder(h, &s)
			h.controller.Apply(s)
			h.lead()
			switch name {
			case "another engine":
				var looks atomic.Int32
				h.guard.looked.Store(&looks)
				wait.Until(t, "it has looked", func() bool { return looks.Load() > 3 })
			case "a full disk":
				h.waits(h.create(), workspace.WaitDiskPressure)
			default:
				h.settles(h.create(), workspace.PhaseRunning) // enough time for many looks
			}
			if n := r.pulled(); len(n) > 0 {
				t.Errorf("pulled %v", n)
			}
			undo()
			h.controller.Apply(s)
			wait.Until(t, "it is pulled", func() bool { return r.pulled()["configured:1"] == 1 })
		})
	}
}
