package reconcile_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ownersBackend records for which owner each object is created.
type ownersBackend struct {
	reconcile.Backend
	mu   sync.Mutex
	made []string
}

func (o *ownersBackend) note(what, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if entry := what + " " + owner; !slices.Contains(o.made, entry) {
		o.made = append(o.made, entry)
	}
}

func (o *ownersBackend) Provision(ctx context.Context, s backend.VolumeSpec) error {
	o.note("volume", s.Owner)
	return o.Backend.Provision(ctx, s)
}

func (o *ownersBackend) Start(ctx context.Context, s backend.StartSpec) error {
	o.note("container", s.Owner)
	return o.Backend.Start(ctx, s)
}

func (o *ownersBackend) StartJob(ctx context.Context, s backend.JobSpec) error {
	o.note("job", s.Owner)
	return o.Backend.StartJob(ctx, s)
}

// TestEverythingIsMadeForItsOwner: each call tells the backend the owner of the workspace.
func TestEverythingIsMadeForItsOwner(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	o := &ownersBackend{Backend: h.backend}
	h.engine = o
	h.use(h.archives, h.log(), nil)
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	o.mu.Lock()
	defer o.mu.Unlock()
	want := []string{"volume " + h.owner.UserID, "container " + h.owner.UserID, "job " + h.owner.UserID}
	if !slices.Equal(o.made, want) {
		t.Errorf("%q, want %q", o.made, want)
	}
}
