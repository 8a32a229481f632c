package engine

import (
	"testing"

	"github.com/containerd/errdefs"
)

// TestRemovedMeanwhile: a start that fails because another process removed the container is tried again.
func TestRemovedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errdefs.ErrNotFound.WithMessage("No such container: ws-1"), true},
		{errdefs.ErrConflict.WithMessage("container is marked for removal and cannot be started"), true},
		{errdefs.ErrNotFound.WithMessage("network codehub not found"), false},
		{errdefs.ErrConflict.WithMessage("cannot start a paused container, try unpause instead"), false},
	} {
		if got := RemovedMeanwhile(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
