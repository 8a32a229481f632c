package docker_test

import (
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
)

// TestStartOverhead compares Start with the two engine calls that it needs at least,
// alternating, on the same network and with the same settings. It prints the
// medians, and fails only if Start takes more than twice as long.
func TestStartOverhead(t *testing.T) {
	e := newEngine(t)
	installation := backendtest.Installation()
	b, ours, ctx := e.New(t, installation), newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: ours, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: ours}))
	like, err := e.api.ContainerInspect(ctx, ours.ContainerName())
	must(t, err)
	must(t, b.Delete(ctx, ours))

	raw := newID()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: raw, OpID: "op"}))
	host := *like.HostConfig
	host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: raw.VolumeName(), Target: "/home/coder"}}

	var bare, start, removal []time.Duration
	for range 7 {
		begin := time.Now()
		c, err := e.api.ContainerCreate(ctx, &container.Config{Image: e.image}, &host, nil, nil, "")
		must(t, err)
		must(t, e.api.ContainerStart(ctx, c.ID, container.StartOptions{}))
		bare = append(bare, time.Since(begin))
		must(t, e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}))

		begin = time.Now()
		must(t, b.Start(ctx, backend.StartSpec{ID: ours}))
		start = append(start, time.Since(begin))
		begin = time.Now()
		must(t, b.Delete(ctx, ours))
		removal = append(removal, time.Since(begin))
	}
	t.Logf("median: bare create and start %s, Start %s, Delete %s", median(bare), median(start), median(removal))
	if over := median(start) - median(bare); over > median(bare) {
		t.Errorf("Start takes %s longer than the engine needs", over)
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2].Round(time.Millisecond)
}
