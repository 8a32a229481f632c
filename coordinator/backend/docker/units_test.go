package docker

import (
	"testing"

	"github.com/containerd/errdefs"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

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
		if got := removedMeanwhile(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}

// TestAddressesArePartOfTheBackend where the coordinator chooses them: not on a network of the
// operator's, unless it says which part of that is free.
func TestAddressesArePartOfTheBackend(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"the default":               {Options{}, true},
		"a network of the operator": {Options{Network: "theirs"}, false},
		"a part of it":              {Options{Network: "theirs", Subnet: "10.9.0.0/24"}, true},
		"ports of the loopback":     {Options{Network: "theirs", Publish: spec.PublishLoopback}, true},
	} {
		c.o.Host, c.o.Installation, c.o.Image = "unix:///nonexistent/docker.sock", "test", "x"
		b, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Addresses != nil; got != c.want {
			t.Errorf("%s: addresses are a part: %v, want %v", name, got, c.want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}
