package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/wait"
)

const (
	// wakeRuns is how often a single workspace is woken, in turn with the raw engine.
	wakeRuns = 15
	// wakeMany is how many workspaces are woken at the same time, and wakeManyRuns how often.
	wakeMany     = 20
	wakeManyRuns = 3
)

// BenchmarkWake measures how long a request that wakes its workspace takes. For comparison, it measures how long Docker
// alone takes to create and start the same container on the same network, until its first answer. Both take turns in
// one run. The workspace has slept only briefly, so its network is kept. `make bench-wake` runs it.
func BenchmarkWake(b *testing.B) {
	in := install(b, "LIMITS_MAX_RUNNING_PER_USER=100", "COORDINATOR_MAX_CONCURRENT=20")
	me := in.admin(b)
	ids := make([]string, wakeMany)
	for i := range ids {
		ids[i] = me.create(b, fmt.Sprintf("woken %d", i)).ID
	}
	raw := in.rawLike(b, ids[0])
	sleep := func(ids ...string) {
		for _, id := range ids {
			me.setDesiredState(b, id, "STANDBY")
		}
		for _, id := range ids {
			me.awaitPhase(b, id, "STANDBY")
		}
	}
	sleep(ids...)

	var ours, bare []time.Duration
	for range wakeRuns {
		took, remove := raw.once(b)
		remove()
		bare = append(bare, took)
		ours = append(ours, me.wake(b, ids[0]))
		sleep(ids[0])
	}
	slices.Sort(ours)
	slices.Sort(bare)
	fmt.Printf("figure wake_ms %.1f ms\n", milliseconds(ours[wakeRuns/2]))
	fmt.Printf("figure wake_raw_ms %.1f ms\n", milliseconds(bare[wakeRuns/2]))
	fmt.Printf("figure wake_ratio %.3f ratio\n", ours[wakeRuns/2].Seconds()/bare[wakeRuns/2].Seconds())
	fmt.Printf("figure wake_overhead_ms %.1f ms\n", milliseconds(ours[wakeRuns/2]-bare[wakeRuns/2]))

	var ratios []float64
	for range wakeManyRuns {
		removals := make([]func(), wakeMany)
		limit := together(wakeMany, func(i int) (took time.Duration) { took, removals[i] = raw.once(b); return took })
		for _, remove := range removals {
			remove()
		}
		took := together(wakeMany, func(i int) time.Duration { return me.wake(b, ids[i]) })
		sleep(ids...)
		ratios = append(ratios, took.Seconds()/limit.Seconds())
	}
	slices.Sort(ratios)
	fmt.Printf("figure wake_20_ratio %.3f ratio\n", ratios[wakeManyRuns/2])
	b.ReportMetric(0, "ns/op")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// together runs f n times at the same time and returns how long the slowest run took.
func together(n int, f func(i int) time.Duration) time.Duration {
	took := make([]time.Duration, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { took[i] = f(i) })
	}
	all.Wait()
	return slices.Max(took)
}

// wake sends a program's request to a sleeping workspace and returns the time until the
// first byte of the answer.
func (u *user) wake(t testing.TB, id string) time.Duration {
	began := time.Now()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.in.url("/w/"+id+"/healthz"), nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	res, err := u.http.Do(req)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	_, _ = io.ReadFull(res.Body, make([]byte, 1))
	took := time.Since(began)
	if res.StatusCode != http.StatusOK {
		t.Errorf("waking %s: %s", id, res.Status)
	}
	return took
}

// rawContainer describes how the engine alone starts the container of a workspace.
type rawContainer struct {
	in      *installation
	config  *container.Config
	host    *container.HostConfig
	network string
}

// rawLike copies the description of a running workspace's container.
func (in *installation) rawLike(t testing.TB, id string) rawContainer {
	t.Helper()
	c, err := in.docker.ContainerInspect(t.Context(), "ws-"+id)
	if err != nil {
		t.Fatal(err)
	}
	host := *c.HostConfig
	return rawContainer{in: in, host: &host, config: &container.Config{
		Image: c.Config.Image, Hostname: "raw", Labels: map[string]string{"codehub.installation": in.id},
	}, network: string(c.HostConfig.NetworkMode)}
}

// once creates and starts one container with an existing volume. It returns the time until the container's first
// answer, and a function that removes the container.
func (r rawContainer) once(t testing.TB) (took time.Duration, remove func()) {
	ctx, name := t.Context(), "raw-"+uuid.NewString()
	host := *r.host
	host.Mounts = []mount.Mount{{Type: mount.TypeVolume, Source: name, Target: "/home/coder",
		VolumeOptions: &mount.VolumeOptions{Labels: map[string]string{"codehub.installation": r.in.id}}}}
	prepared, err := r.in.docker.ContainerCreate(ctx, r.config, &host, nil, nil, name+"-volume")
	if err != nil {
		t.Fatal(err)
	}
	remove = func() {
		for _, id := range []string{name, prepared.ID} {
			if err := r.in.docker.ContainerRemove(ctx, id, container.RemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		}
	}
	began := time.Now()
	address, err := r.begin(ctx, name, &host)
	if err != nil {
		t.Error(err)
		return 0, remove
	}
	wait.For(t, "the raw container answers", func() error {
		res, err := http.Get("http://" + address + "/healthz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.ReadFull(res.Body, make([]byte, 1))
		return err
	})
	return time.Since(began), remove
}

// begin creates and starts one container and returns its address.
func (r rawContainer) begin(ctx context.Context, name string, host *container.HostConfig) (address string, err error) {
	c, err := r.in.docker.ContainerCreate(ctx, r.config, host, nil, nil, name)
	if err != nil {
		return "", err
	}
	if err := r.in.docker.ContainerStart(ctx, c.ID, container.StartOptions{}); err != nil {
		return "", err
	}
	info, err := r.in.docker.ContainerInspect(ctx, c.ID)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort(endpoint(info.NetworkSettings.Networks), "8080"), nil
}

// endpoint is the container's address on its only network.
func endpoint(networks map[string]*network.EndpointSettings) string {
	for _, n := range networks {
		return n.IPAddress
	}
	return ""
}
