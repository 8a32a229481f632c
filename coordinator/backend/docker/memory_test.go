package docker_test

import (
	"net/http"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// TestMemoryOfAnotherHost: the containers' memory, without what the kernel may drop, is all that is known to be in use.
func TestMemoryOfAnotherHost(t *testing.T) {
	f := newFakeEngine(t, "engine", "1.47")
	stats := func(usage, droppable int) http.HandlerFunc {
		return answer(map[string]any{"read": "2026-01-02T03:04:05Z",
			"memory_stats": map[string]any{"usage": usage, "stats": map[string]any{"inactive_file": droppable}}})
	}
	f.answers["GET /info"] = answer(map[string]any{"ID": "engine", "MemTotal": 1000})
	f.answers["GET /containers/json"] = answer([]map[string]string{{"Id": "a"}, {"Id": "b"}, {"Id": "gone"}})
	f.answers["GET /containers/a/stats"], f.answers["GET /containers/b/stats"] = stats(300, 100), stats(50, 0)
	f.answers["GET /containers/gone/stats"] = refuse(http.StatusNotFound, "no such container")
	b := f.backend(t)
	memory := func(want backend.Memory) {
		t.Helper()
		if got, err := b.Memory(t.Context()); err != nil || got != want {
			t.Errorf("%+v, %v; want %+v", got, err, want)
		}
	}
	memory(backend.Memory{Total: 1000, Available: 750})
	f.answers["GET /info"] = refuse(http.StatusInternalServerError, "it was asked again")
	f.answers["GET /containers/b/stats"] = stats(5000, 0)
	memory(backend.Memory{Total: 1000})
	f.answers["GET /containers/b/stats"] = refuse(http.StatusInternalServerError, "broken")
	if got, err := b.Memory(t.Context()); err == nil {
		t.Errorf("%+v although the engine does not tell", got)
	}
}

// TestMemoryOfAFrozenContainer: a remote engine reports the memory of a frozen container as in use.
func TestMemoryOfAFrozenContainer(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := faulty.Listen(t, "tcp", "127.0.0.1:0", e.host)
	here := e.New(t, backendtest.Installation())
	e.change = func(o *docker.Options) { o.Host = p.Host }
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	memory := func(b backend.Backend) backend.Memory {
		t.Helper()
		m, err := b.Memory(ctx)
		must(t, err)
		return m
	}
	empty := memory(b)
	if empty.Total != empty.Available || empty.Total <= 0 {
		t.Errorf("without containers %+v", empty)
	}
	start(t, b, backend.StartSpec{ID: id})
	all, err := b.Containers(ctx)
	must(t, err)
	must(t, b.Freezer.Freeze(ctx, id, all[id].StartedAt))
	if m := memory(b); m.Total != empty.Total || m.Available >= empty.Available || m.Available <= 0 {
		t.Errorf("with a frozen container %+v, without %+v", m, empty)
	}
	if m := memory(here); m.Total != empty.Total || m.Available >= m.Total {
		t.Errorf("of this host %+v, want %d bytes", m, empty.Total)
	}
}
