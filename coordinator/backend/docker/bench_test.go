package docker_test

import (
	"fmt"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestStartOverhead compares Start with the two engine calls that a start needs at least. It alternates between the two
// ways, on the same network and with the same settings. It prints the medians, and fails only if Start takes more than
// twice as long.
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

// BenchmarkDoze measures how long it takes from the thaw of a frozen workspace until the first byte of its answer to a
// waiting request arrives. It also measures how much processor time many frozen workspaces take. Run it with `devenv
// test -run '^$' -bench '^BenchmarkDoze$' -benchtime 1x ./coordinator/backend/docker`.
func BenchmarkDoze(b *testing.B) {
	const rounds, many, watched = 25, 8, 10 * time.Second
	e := newEngine(b)
	be, ctx := e.open(b, backendtest.Installation()), b.Context()
	ids, endpoints := make([]workspace.ID, many), make([]string, many)
	for i := range ids {
		ids[i] = newID()
		endpoints[i] = start(b, be, backend.StartSpec{ID: ids[i]})
	}
	freeze := func(ids ...workspace.ID) {
		all, err := be.Containers(ctx, ids...)
		must(b, err)
		for _, id := range ids {
			must(b, be.Freezer.Freeze(ctx, id, all[id].StartedAt))
		}
	}
	used := func() (sum time.Duration) {
		for _, id := range ids {
			s, err := be.Stats(ctx, id)
			must(b, err)
			sum += s.CPU
		}
		return sum
	}
	percent := func() float64 {
		before, began := used(), time.Now()
		<-time.After(watched)
		return 100 * (used() - before).Seconds() / time.Since(began).Seconds() / many
	}
	for b.Loop() {
		fmt.Printf("figure idle_cpu_percent %.3f %%\n", percent())
		freeze(ids...)
		fmt.Printf("figure doze_cpu_percent %.3f %%\n", percent())
		for _, id := range ids {
			must(b, be.Freezer.Thaw(ctx, id))
		}
		took := make([]time.Duration, rounds)
		for i := range took {
			id, endpoint := ids[i%many], endpoints[i%many]
			freeze(id)
			conn, err := net.Dial("tcp", endpoint)
			must(b, err)
			_, err = io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
			must(b, err)
			began := time.Now()
			must(b, be.Freezer.Thaw(ctx, id))
			_, err = conn.Read(make([]byte, 1))
			must(b, err)
			took[i] = time.Since(began)
			conn.Close()
		}
		slices.Sort(took)
		ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
		fmt.Printf("figure doze_thaw_raw_ms %.1f ms\n", ms(took[len(took)/2]))
		fmt.Printf("figure doze_thaw_raw_p99_ms %.1f ms\n", ms(took[len(took)*99/100]))
	}
}
