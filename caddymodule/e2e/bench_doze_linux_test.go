package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

const (
	// thawRuns is how often a dozing workspace is woken.
	thawRuns = 50
	// dozingMany is how many workspaces doze unused, and dozingFor is how long.
	dozingMany = 100
	dozingFor  = 30 * time.Second
)

// BenchmarkDoze measures how long a program's request waits for a dozing workspace to resume, and what dozing
// workspaces cost. `make bench-doze` runs it.
func BenchmarkDoze(b *testing.B) {
	in := install(b, "TTL_DOZE_SECONDS=2", "LIMITS_MAX_RUNNING_PER_USER=200", "LIMITS_MAX_RUNNING_GLOBAL=200",
		"LIMITS_MAX_DOZING_PER_USER=200", "LIMITS_MAX_DOZING_GLOBAL=200", "COORDINATOR_MAX_CONCURRENT=20", "CODEHUB_MEMORY_PRESSURE=off")
	me := in.admin(b)
	first := me.create(b, "thawed").ID
	thaws := make([]time.Duration, thawRuns)
	for i := range thaws {
		in.awaitFrozen(b, first, true)
		thaws[i] = me.wake(b, first)
	}
	slices.Sort(thaws)
	fmt.Printf("figure doze_thaw_ms %.1f ms\n", milliseconds(thaws[thawRuns/2]))
	fmt.Printf("figure doze_thaw_p99_ms %.1f ms\n", milliseconds(thaws[thawRuns*99/100]))

	ids := []string{first}
	for i := range dozingMany - 1 {
		ids = append(ids, me.create(b, fmt.Sprintf("dozes %d", i)).ID)
	}
	for _, id := range ids {
		in.awaitFrozen(b, id, true)
	}
	used := func() (sum time.Duration) {
		for _, id := range ids {
			sum += in.processor(b, id)
		}
		return sum
	}
	containers, gateway, began := used(), in.cpuTime(b), time.Now()
	time.Sleep(dozingFor) // what is measured is that nothing happens
	containers, gateway = used()-containers, in.cpuTime(b)-gateway
	took := time.Since(began)
	fmt.Printf("figure doze_100_cpu_percent %.2f %%\n", 100*containers.Seconds()/took.Seconds())
	fmt.Printf("figure doze_100_gateway_cpu_percent %.2f %%\n", 100*gateway.Seconds()/took.Seconds())
	b.ReportMetric(0, "ns/op")
}

// processor is the processor time that the workspace's container has used.
func (in *installation) processor(t testing.TB, id string) time.Duration {
	t.Helper()
	answer, err := in.docker.ContainerStatsOneShot(t.Context(), "ws-"+id)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var stats container.StatsResponse
	if err := json.NewDecoder(answer.Body).Decode(&stats); err != nil {
		t.Fatal(err)
	}
	return time.Duration(stats.CPUStats.CPUUsage.TotalUsage)
}
