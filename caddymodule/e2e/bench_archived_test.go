package e2e

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// archivedRuns is how often an archived workspace is woken, alternating with the raw
// engine.
const archivedRuns = 7

// archivedStages are the stages of a wake-up from ARCHIVED. Each stage but the last ends with an event of the engine
// about the home's volume, the job's container or the workspace's container.
var archivedStages = []struct{ name, until string }{
	{"volume", "home create"},          // from the request: desired state, operation, home
	{"job_create", "job create"},       // the servers are checked, the job's container is made
	{"job_start", "job start"},         // its network and its process
	{"job_run", "job die"},             // download, unpack, swap, and the end of the process
	{"create", "workspace create"},     // the leader sees and saves the end, and begins the next operation
	{"start", "workspace start"},       // as the raw engine does it
	{"answer", "the request's answer"}, // the address is saved, the application probed
}

// BenchmarkWakeArchived measures a request that wakes an archived workspace with a small home, 40 MB in 2,000 files.
// For comparison, it measures how long Docker alone takes to create and start the container. It also prints the time of
// each stage. `make bench-wake` runs it.
func BenchmarkWakeArchived(b *testing.B) {
	in := install(b)
	me := in.admin(b)
	id := me.create(b, "archived").ID
	base := me.enter(b, id)
	if out := me.run(b, base, "for i in `seq 2000`; do head -c 20000 /dev/urandom > f$i; done; ls | wc -l"); out != "2000" {
		b.Fatalf("made %q files", out)
	}
	raw := in.rawLike(b, id)
	happened := in.watchEngine(b, id)
	var ours, bare []time.Duration
	stages := make([][]time.Duration, len(archivedStages))
	for range archivedRuns {
		me.setDesiredState(b, id, "ARCHIVED")
		me.awaitPhase(b, id, "ARCHIVED")
		// The object store is on the same disk, so without this sync, a restore would have to wait until the archive is
		// written to the disk. If a workspace has slept for hours, its archive has long been written.
		syscall.Sync()
		took, remove := raw.once(b)
		remove()
		bare = append(bare, took)
		began := time.Now()
		took = me.wake(b, id)
		ours = append(ours, took)
		from := began
		for i, s := range archivedStages {
			at, ok := happened(s.until, began)
			if i == len(archivedStages)-1 {
				at, ok = began.Add(took), true
			}
			if !ok {
				b.Fatalf("the engine has not told %q", s.until)
			}
			stages[i] = append(stages[i], at.Sub(from))
			from = at
		}
	}
	fmt.Printf("figure archived_wake_ms %.1f ms\n", milliseconds(middle(ours)))
	fmt.Printf("figure archived_wake_raw_ms %.1f ms\n", milliseconds(middle(bare)))
	fmt.Printf("figure archived_wake_over_start_ms %.1f ms\n", milliseconds(middle(ours)-middle(bare)))
	longest := 0
	for i, s := range archivedStages {
		fmt.Printf("figure archived_stage_%s_ms %.1f ms\n", s.name, milliseconds(middle(stages[i])))
		if middle(stages[i]) > middle(stages[longest]) {
			longest = i
		}
	}
	fmt.Printf("the longest stage is %s\n", archivedStages[longest].name)
	b.ReportMetric(0, "ns/op")
}

// middle returns the middle one of an odd number of durations.
func middle(of []time.Duration) time.Duration {
	of = slices.Sorted(slices.Values(of))
	return of[len(of)/2]
}

// watchEngine follows the engine's events of a workspace until the test ends. The returned function returns the time of
// the first event of that kind, such as "job start", after the time since.
func (in *installation) watchEngine(t testing.TB, id string) func(what string, since time.Time) (time.Time, bool) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	messages, _ := in.docker.Events(ctx, events.ListOptions{Filters: filters.NewArgs()})
	var mu sync.Mutex
	seen := make(map[string][]time.Time)
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case m := <-messages:
				kind := m.Actor.Attributes["codehub.kind"]
				if m.Type == events.VolumeEventType && m.Actor.ID == "ws-"+id+"-home" {
					kind = "home"
				} else if m.Actor.Attributes["codehub.workspace"] != id {
					continue
				}
				mu.Lock()
				what := kind + " " + string(m.Action)
				seen[what] = append(seen[what], time.Unix(0, m.TimeNano))
				mu.Unlock()
			}
		}
	})
	t.Cleanup(func() { cancel(); done.Wait() })
	return func(what string, since time.Time) (time.Time, bool) {
		mu.Lock()
		defer mu.Unlock()
		i := slices.IndexFunc(seen[what], func(at time.Time) bool { return at.After(since) })
		if i < 0 {
			return time.Time{}, false
		}
		return seen[what][i], true
	}
}
