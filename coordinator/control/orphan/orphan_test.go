package orphan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	alive   workspace.ID = "11111111-1111-1111-1111-111111111111"
	deleted workspace.ID = "22222222-2222-2222-2222-222222222222"
	unknown workspace.ID = "33333333-3333-3333-3333-333333333333"
	going   workspace.ID = "44444444-4444-4444-4444-444444444444"
	op                   = "55555555-5555-5555-5555-555555555555"
)

// fixture is a backend, a database and an identity.
type fixture struct {
	objects  []backend.Object
	rows     map[workspace.ID]workspace.Workspace
	err      error // of every call to the backend
	mismatch error
	removed  []string
	asked    int // for the identity
}

func newFixture() *fixture {
	return &fixture{rows: map[workspace.ID]workspace.Workspace{
		alive:   {ID: alive, Phase: workspace.PhaseStandby, Operation: workspace.OpNone},
		deleted: {ID: deleted, Phase: workspace.PhaseDeleted, Operation: workspace.OpNone},
		going:   {ID: going, Phase: workspace.PhaseStandby, Operation: workspace.OpArchiving, ArchiveOpID: op},
	}}
}

func (w *fixture) Objects(context.Context) ([]backend.Object, error) { return w.objects, w.err }

func (w *fixture) Remove(_ context.Context, o backend.Object) error {
	if w.err != nil {
		return w.err
	}
	w.removed = append(w.removed, o.Name)
	return nil
}

func (w *fixture) Workspaces(_ context.Context, ids []workspace.ID) (found []workspace.Workspace, err error) {
	for _, id := range ids {
		if row, ok := w.rows[id]; ok {
			found = append(found, row)
		}
	}
	return found, nil
}

func (w *fixture) Backend(context.Context) error {
	w.asked++
	return w.mismatch
}

func (w *fixture) finder() *Finder { return New(w, w, w) }

// object returns an object that is old enough to count as an orphan.
func object(kind backend.ObjectKind, name string, id workspace.ID) backend.Object {
	return backend.Object{Kind: kind, Name: name, Workspace: id, UID: name, Created: time.Now().Add(-time.Hour)}
}

func TestOnlyWhatBelongsToNoWorkspaceIsAnOrphan(t *testing.T) {
	now := time.Now()
	w := newFixture()
	for _, tt := range []struct {
		what   string
		object backend.Object
		want   Reason
	}{
		{"a container of a workspace", object(backend.ObjectContainer, "c", alive), ""},
		{"a volume of a workspace", object(backend.ObjectVolume, "v", alive), ""},
		{"a container without a row", object(backend.ObjectContainer, "c", unknown), NoWorkspace},
		{"a volume without a row", object(backend.ObjectVolume, "v", unknown), NoWorkspace},
		{"a job without a row", object(backend.ObjectJob, "j", unknown), NoWorkspace},
		{"a volume of a deleted workspace", object(backend.ObjectVolume, "v", deleted), Deleted},
		{"a job of a deleted workspace", object(backend.ObjectJob, "j", deleted), Deleted},
		{"a job of a workspace", object(backend.ObjectJob, "j", alive), ""},
		{"a scratch volume of a workspace at rest", object(backend.ObjectScratch, "s", alive), Unused},
		{"a scratch volume during an operation", object(backend.ObjectScratch, "s", going), ""},
		{"a scratch volume without a row", object(backend.ObjectScratch, "s", unknown), NoWorkspace},
		{"a network that is not used", object(backend.ObjectNetwork, "n", ""), Unused},
		{"one that was made just now", backend.Object{Kind: backend.ObjectVolume, Workspace: unknown, Created: now.Add(-MinAge + time.Second)}, ""},
		{"one of an unknown age", backend.Object{Kind: backend.ObjectVolume, Workspace: unknown}, ""},
		{"one from the future, by its clock", backend.Object{Kind: backend.ObjectVolume, Workspace: unknown, Created: now.Add(time.Hour)}, ""},
	} {
		row, known := w.rows[tt.object.Workspace]
		if reason, ok := judge(tt.object, row, known, now.Add(-MinAge)); reason != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: %q, %v, want %q", tt.what, reason, ok, tt.want)
		}
	}
	last := w.rows[going]
	last.Phase = workspace.PhaseDeleted
	job := object(backend.ObjectJob, "j", going)
	job.OpID = op
	if _, ok := judge(job, last, true, now.Add(-MinAge)); ok {
		t.Error("a job that an operation names is an orphan")
	}
	job.OpID = "66666666-6666-6666-6666-666666666666"
	if _, ok := judge(job, last, true, now); !ok {
		t.Error("a job of a deleted workspace that no operation names is none")
	}
}

func TestNothingIsConcludedFromAnotherBackend(t *testing.T) {
	w := newFixture()
	w.objects = []backend.Object{object(backend.ObjectVolume, "v", unknown)}
	w.mismatch = errors.New("another engine")
	if found, err := w.finder().Find(t.Context()); !errors.Is(err, w.mismatch) || found != nil {
		t.Errorf("found %v, %v", found, err)
	}
	known := []Orphan{{w.objects[0], NoWorkspace}}
	err := w.finder().Remove(t.Context(), known, func(o Orphan, _ error) { t.Errorf("%s was removed", o.Name) })
	if !errors.Is(err, w.mismatch) {
		t.Errorf("removing: %v", err)
	}
	w.mismatch, w.err = nil, errors.New("the engine is away")
	if _, err := w.finder().Find(t.Context()); !errors.Is(err, w.err) {
		t.Errorf("finding without an engine: %v", err)
	}
}

// A person may know that nothing is being created.
func TestAnotherAgeMayBeEnough(t *testing.T) {
	w := newFixture()
	w.objects = []backend.Object{{Kind: backend.ObjectVolume, Name: "young", Workspace: unknown, UID: "young", Created: time.Now().Add(-time.Minute)}}
	f := w.finder()
	if found, err := f.Find(t.Context()); err != nil || len(found) != 0 {
		t.Errorf("found %v, %v", found, err)
	}
	now := f.OlderThan(0)
	found, err := now.Find(t.Context())
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	if err := now.Remove(t.Context(), found, func(Orphan, error) {}); err != nil || len(w.removed) != 1 {
		t.Errorf("removed %v, %v", w.removed, err)
	}
}

func TestWhatIsNeededAgainIsNotRemoved(t *testing.T) {
	w := newFixture()
	w.objects = []backend.Object{
		object(backend.ObjectNetwork, "network", ""), object(backend.ObjectVolume, "volume", unknown),
		object(backend.ObjectVolume, "other", deleted), object(backend.ObjectContainer, "container", unknown),
		object(backend.ObjectJob, "job", unknown),
	}
	f := w.finder()
	found, err := f.Find(t.Context())
	if err != nil || len(found) != 5 {
		t.Fatalf("found %v, %v", found, err)
	}
	w.rows[deleted] = workspace.Workspace{ID: deleted, Phase: workspace.PhaseArchived}
	w.asked = 0
	var told []string
	if err := f.Remove(t.Context(), found, func(o Orphan, err error) {
		if err != nil {
			t.Error(err)
		}
		told = append(told, o.Name)
	}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"container", "job", "volume", "network"}; !slices.Equal(w.removed, want) || !slices.Equal(told, want) {
		t.Errorf("removed %v and told %v, want %v", w.removed, told, want)
	}
	if w.asked != 4 {
		t.Errorf("the backend's identity was checked %d times", w.asked)
	}
	w.err = backend.ErrVolumeInUse
	if err := f.Remove(t.Context(), found[:1], func(_ Orphan, err error) {
		if !errors.Is(err, backend.ErrVolumeInUse) {
			t.Errorf("a removal that failed is told as %v", err)
		}
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeIsLoggedOnce(t *testing.T) {
	w := newFixture()
	core, logs := observer.New(zap.InfoLevel)
	s := NewSearch(w.finder(), zap.New(core))
	look := func(want string) {
		t.Helper()
		for range 2 {
			if err := s.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		lines := logs.TakeAll()
		if want == "" && len(lines) > 0 || want != "" && (len(lines) != 1 ||
			!strings.Contains(fmt.Sprint(lines[0].Message, ": ", lines[0].ContextMap()["problem"]), want)) {
			t.Errorf("logged %v, want once %q", lines, want)
		}
	}
	look("")
	w.objects = []backend.Object{object(backend.ObjectVolume, "v", unknown)}
	look("belongs to no workspace; nothing is removed before you say so: " + Command + ": 1 volume")
	w.objects = append(w.objects, object(backend.ObjectVolume, "w", deleted), object(backend.ObjectContainer, "c", unknown), object(backend.ObjectScratch, "s", unknown))
	look("nothing is removed before you say so: " + Command + ": 1 container, 1 scratch volume and 2 volumes")
	w.objects = nil
	look("any more")
}
