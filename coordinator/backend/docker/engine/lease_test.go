package engine_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// TestNothingIsChangedAfterTheLease: this holds even if the lease runs out between two requests of one call, for
// example because the process is suspended there.
func TestNothingIsChangedAfterTheLease(t *testing.T) {
	var changes atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			changes.Add(1)
		}
		_, _ = w.Write([]byte(`{"ID":"x"}`))
	}))
	defer s.Close()
	c, err := engine.Connect("tcp://"+strings.TrimPrefix(s.URL, "http://"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	held := true
	ctx := backend.WithLease(t.Context(), func() bool { return held })
	if err := c.ContainerStart(ctx, "x", container.StartOptions{}); err != nil || changes.Load() != 1 {
		t.Fatalf("while it is held: %v, %d changes", err, changes.Load())
	}
	held = false
	for name, change := range map[string]func() error{
		"start":  func() error { return c.ContainerStart(ctx, "x", container.StartOptions{}) },
		"remove": func() error { return c.ContainerRemove(ctx, "x", container.RemoveOptions{}) },
	} {
		if err := change(); !errors.Is(err, backend.ErrLeaseLapsed) || changes.Load() != 1 {
			t.Errorf("%s after it: %v, %d changes", name, err, changes.Load())
		}
	}
	if _, err := c.ContainerInspect(ctx, "x"); err != nil {
		t.Errorf("reading needs no lease: %v", err)
	}
	if err := c.ContainerStart(t.Context(), "x", container.StartOptions{}); err != nil {
		t.Errorf("without a lease: %v", err)
	}
}
