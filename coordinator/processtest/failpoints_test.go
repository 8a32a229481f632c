package processtest

import (
	"flag"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

var update = flag.Bool("update", false, "write the recorded points to testdata/points.txt")

// pointsFile lists every point, so that a change of the side effects shows in a review.
const pointsFile = "testdata/points.txt"

// A step is a part of a workspace's life. The first process is killed or stopped in one
// of them; every step must come to its end all the same.
type step struct {
	name string
	do   func(t testing.TB, h *home)
}

// life leads a workspace through every operation, and through deletion and back.
var life = []step{
	{"created and running", func(t testing.TB, h *home) { h.await(t, workspace.PhaseRunning); h.write(t, "one") }},
	{"asleep", func(t testing.TB, h *home) { h.want(t, workspace.DesiredStandby); h.await(t, workspace.PhaseStandby) }},
	{"awake", func(t testing.TB, h *home) { h.run(t); h.check(t); h.write(t, "two") }},
	{"archived", func(t testing.TB, h *home) { h.want(t, workspace.DesiredArchived); h.await(t, workspace.PhaseArchived) }},
	{"restored", func(t testing.TB, h *home) { h.run(t); h.check(t); h.write(t, "three") }},
	{"deleted", func(t testing.TB, h *home) {
		wait.For(t, "the workspace is deleted", func() error { return h.service.Delete(t.Context(), h.owner, h.id, false) })
		wait.Until(t, "nothing but the archive is left", func() bool { return h.row(t).AwaitsGC })
	}},
	{"undeleted", func(t testing.TB, h *home) {
		wait.For(t, "the deletion is undone", func() error { _, err := h.service.Undelete(t.Context(), h.owner, h.id); return err })
		h.await(t, workspace.PhaseArchived)
	}},
	{"back", func(t testing.TB, h *home) { h.run(t); h.check(t) }},
}

// end deletes a workspace for good: its archives are collected.
var end = []step{
	{"archived at once", func(t testing.TB, h *home) { h.want(t, workspace.DesiredArchived); h.await(t, workspace.PhaseArchived) }},
	{"collected", func(t testing.TB, h *home) {
		wait.For(t, "the workspace is deleted", func() error { return h.service.Delete(t.Context(), h.owner, h.id, false) })
		h.await(t, workspace.PhaseDeleted)
		if left := h.objects(t); len(left) != 0 {
			t.Errorf("the workspace is DELETED and the store still has %v", left)
		}
	}},
}

// scenario is a course of steps in which points are reached.
type scenario struct {
	name  string
	steps []step
	// prepare makes the workspace, before the processes start.
	prepare func(t testing.TB, in *installation) *home
	config  func(*processConfig)
}

var scenarios = []scenario{
	{"life", life, func(t testing.TB, in *installation) *home { return in.create(t) }, func(*processConfig) {}},
	{"end", end, func(t testing.TB, in *installation) *home {
		h := in.create(t)
		h.want(t, workspace.DesiredArchived) // never runs: its archive is made empty
		return h
	}, func(c *processConfig) { c.GCDelay, c.GCInterval = time.Second, 500*time.Millisecond }},
}

// TestPointsAreComplete records the side effects of a whole life and compares them with
// the list in testdata/points.txt, from which the other tests take their points.
func TestPointsAreComplete(t *testing.T) {
	var recorded []string
	for _, sc := range scenarios {
		in := install(t)
		h := sc.prepare(t, in)
		p := in.process(t, "only", sc.config)
		for _, s := range sc.steps {
			s.do(t, h)
		}
		for _, name := range p.effects() {
			if line := sc.name + ": " + name; !slices.Contains(recorded, line) && !slices.Contains(recorded, "life: "+name) {
				recorded = append(recorded, line)
			}
		}
	}
	slices.Sort(recorded)
	if *update {
		if err := os.WriteFile(pointsFile, []byte(strings.Join(recorded, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed := pointsOf(t, "")
	for _, line := range recorded {
		if !slices.Contains(listed, line) {
			t.Errorf("the side effect %q is not in %s: run this test with -update, and look at the new point", line, pointsFile)
		}
	}
	for _, line := range listed {
		if !slices.Contains(recorded, line) {
			t.Errorf("%s lists %q, which did not happen", pointsFile, line)
		}
	}
}

// pointsOf returns the listed points of a scenario, or all lines for "".
func pointsOf(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(pointsFile)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if point, ok := strings.CutPrefix(line, name+": "); ok {
			out = append(out, point)
		} else if name == "" && line != "" {
			out = append(out, line)
		}
	}
	return out
}

// TestKilledAtEveryPoint: the leader is killed right after each side effect. Another
// process takes over, every step comes to its end, and the home is what its user wrote.
func TestKilledAtEveryPoint(t *testing.T) {
	eachPoint(t, func(t *testing.T, sc scenario, point string) {
		in := install(t)
		h := sc.prepare(t, in)
		first := in.process(t, "first", func(c *processConfig) { sc.config(c); c.Armed, c.Trap = point, trapKill })
		in.process(t, "second", sc.config)
		rest := 1 // what follows the point shows what it left behind
		for _, s := range sc.steps {
			if first.dead() {
				rest--
			}
			if rest < 0 {
				break
			}
			s.do(t, h)
		}
		if !first.dead() {
			t.Fatal("the point was never reached")
		}
		h.epochsGrow(t)
	})
}

// TestStoppedAtEveryPoint: the leader is stopped right before each side effect. Another
// process takes over and completes this step and the next one; then the first process is
// continued, and its side effect happens after all: it must change nothing.
func TestStoppedAtEveryPoint(t *testing.T) {
	eachPoint(t, func(t *testing.T, sc scenario, point string) {
		in := install(t)
		h := sc.prepare(t, in)
		first := in.process(t, "first", func(c *processConfig) { sc.config(c); c.Armed, c.Trap = point, trapStop })
		second := in.process(t, "second", sc.config)
		stopped, rest := false, 1
		for _, s := range sc.steps {
			if stopped = stopped || first.said("hit "+point); stopped {
				rest--
			}
			if rest < 0 {
				break
			}
			s.do(t, h)
		}
		if !first.said("hit " + point) {
			t.Fatal("the point was never reached")
		}
		second.await(t, "leads")
		h.sameState(t, "the stopped process continues at "+point, func() {
			first.signal(t, syscall.SIGCONT)
			first.await(t, "released "+point)
			if first.said("leads") {
				first.await(t, "follows")
			}
		})
		if w := h.row(t); w.Phase == workspace.PhaseRunning {
			h.check(t)
		}
		h.epochsGrow(t)
	})
}

// eachPoint runs a test for every listed point, several at a time: they mostly wait.
func eachPoint(t *testing.T, test func(t *testing.T, sc scenario, point string)) {
	for _, sc := range scenarios {
		for _, point := range pointsOf(t, sc.name) {
			t.Run(sc.name+"/"+point, func(t *testing.T) {
				t.Parallel()
				test(t, sc, point)
			})
		}
	}
}
