package docker

import (
	"testing"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// TestAddressesArePartOfTheBackend: the backend has addresses only if the coordinator chooses them. On the operator's
// network, that requires a setting that names a free part of the network.
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
