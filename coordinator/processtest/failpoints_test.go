package processtest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

var update = flag.Bool("update", false, "write the recorded points to the list of points")

// listedWith is for points that an earlier scenario reaches only sometimes. It maps each of them to the scenario that
// always reaches it. On Kubernetes, a process may begin a restore before its watch reports a volume that a test has
// made; it finds the volume only later. If dozing is off, a leader ends dozes as soon as it knows that every process
// has written its activity. Sleep waits for the same knowledge. Archives are collected a minute after a term has begun.
var listedWith = map[string]string{
	"database store Save RESTORING - ARCHIVED ERROR NONE": "damaged",
	"database store EndDozes":                             "unused",
	"database store AddArchives":                          "end",
	"database postgres TryExclusive>begin":                "end",
}

// pointsFile lists every point of this run's container backend, so that reviewers see when the side effects change.
func pointsFile() string {
	if devenv.OnKubernetes() {
		return "testdata/points-kubernetes.txt"
	}
	return "testdata/points.txt"
}

// TestPointsAreComplete records the side effects of all scenarios and compares them with the list of points, which
// the other tests use. It also compares the functions that the scenarios reach with the functions that, according to
// the source, change something (see sources_test.go).
func TestPointsAreComplete(t *testing.T) {
	t.Parallel()
	scenarios := possible()
	names, reached, carriedOut := make([][]string, len(scenarios)), make([][]string, len(scenarios)), make([][]string, len(scenarios))
	t.Run("scenarios", func(t *testing.T) {
		for i, sc := range scenarios {
			t.Run(sc.name, func(t *testing.T) {
				t.Parallel()
				in := install(t)
				h := sc.prepare(t, in)
				p := in.process(t, "only", sc.configure)
				for _, s := range sc.steps {
					s.do(t, h)
				}
				// The result of a side effect may be visible before the process's report about it has arrived.
				if !*update {
					wait.For(t, "the listed side effects happen", func() error { return p.reported(pointsOf(t, sc.name)) })
				}
				p.signal(t, syscall.SIGKILL)
				wait.Until(t, "all reports have arrived", p.dead)
				names[i], reached[i], carriedOut[i] = p.reports("effect "), p.reports("reached "), p.reports("action ")
			})
		}
	})
	if t.Failed() {
		return
	}
	var recorded []string
	seen := make(map[string]bool) // a point belongs to the first scenario that reaches it
	for i, sc := range scenarios {
		slices.Sort(names[i])
		for _, name := range names[i] {
			if with := listedWith[name]; with != "" && with != sc.name {
				continue
			}
			if !seen[name] && name != refresh {
				seen[name] = true
				recorded = append(recorded, sc.name+": "+name)
			}
		}
	}
	if *update {
		if err := os.WriteFile(pointsFile(), []byte(strings.Join(recorded, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed := pointsOf(t, "")
	for name, with := range listedWith {
		if !slices.Contains(listed, with+": "+name) {
			t.Errorf("listedWith names %q, which %s does not list with %q", name, pointsFile(), with)
		}
	}
	for _, line := range recorded {
		if !slices.Contains(listed, line) {
			t.Errorf("the side effect %q is not in %s: run this test with -update, and look at the new point", line, pointsFile())
		}
	}
	for _, line := range listed {
		if !slices.Contains(recorded, line) {
			t.Errorf("%s lists %q, which did not happen", pointsFile(), line)
		}
	}
	checkSources(t, slices.Concat(reached...))
	checkTransitions(t, recorded, slices.Concat(carriedOut...))
}

// pointsOf returns the listed points of a scenario, or all lines for "".
func pointsOf(t testing.TB, name string) []string {
	t.Helper()
	text, err := os.ReadFile(pointsFile())
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

// TestKilledAtEveryPoint: the leader is killed right after each side effect. Another process takes over, every step is
// completed, and the home has the files that its user wrote.
func TestKilledAtEveryPoint(t *testing.T) {
	t.Parallel()
	eachPoint(t, trapKill)
}

// TestStoppedAtEveryPoint: the leader is stopped right before each side effect. Another process
// takes over and completes this step and the next one. Then the first process is continued, and its
// side effect happens after all: it must change nothing.
func TestStoppedAtEveryPoint(t *testing.T) {
	t.Parallel()
	eachPoint(t, trapStop)
}

// checkAll fails the test unless one leader wrote after the other. If the workspace can still be opened, checkAll also
// checks that it runs with the files that its user has written.
func (h *home) checkAll(t testing.TB) {
	t.Helper()
	h.epochsGrow(t)
	w := h.row(t)
	if w.Deleted() && w.CollectedAt.IsZero() && w.Phase != workspace.PhaseDeleted {
		wait.For(t, "the deletion is undone", func() error { _, err := h.service.Undelete(t.Context(), h.owner, h.id); return err })
		w = h.row(t)
	}
	if w.Deleted() || w.ErrorReason != "" {
		return
	}
	h.runs(t)
}

// sampleOfPoints is the number of points in a run on Kubernetes. All of them would take hours on a small machine.
const sampleOfPoints = 8

// always are the scenarios of every run: they archive, restore, delete and collect.
var always = []string{"life", "end"}

// eachPoint traps a process at every listed point. A scenario has a few lanes, which run at the same time because they
// mostly wait.
func eachPoint(t *testing.T, tr trap) {
	listed, chosen := pointsOf(t, ""), possible()
	switch {
	case devenv.OnKubernetes() && !seed.All():
		listed = seed.Sample(t, listed, sampleOfPoints)
	case !devenv.OnKubernetes():
		kept := func(sc scenario) bool { return slices.Contains(always, sc.name) }
		some := seed.Third(t, slices.DeleteFunc(possible(), kept))
		chosen = append(some, slices.DeleteFunc(chosen, func(sc scenario) bool { return !kept(sc) })...)
	}
	for _, sc := range chosen {
		var points []string
		for _, line := range listed {
			if point, ok := strings.CutPrefix(line, sc.name+": "); ok {
				points = append(points, point)
			}
		}
		claimed := t.TempDir()
		for lane := range (len(points) + pointsPerLane - 1) / pointsPerLane {
			t.Run(fmt.Sprintf("%s/%d", sc.name, lane+1), func(t *testing.T) {
				t.Parallel()
				for n := 1; len(unclaimed(claimed, points)) > 0 && !t.Failed(); n++ {
					t.Run(fmt.Sprint(n), func(t *testing.T) { sc.course(t, points, tr, claimed) })
				}
			})
		}
	}
}
