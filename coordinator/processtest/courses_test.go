package processtest

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// pointsPerLane is the number of a scenario's points per lane. The courses of a lane run one after the other. Each
// tries as many points as it reaches.
const pointsPerLane = 20

// claims are the points at which a process has been trapped already. Two processes share them through the file
// system.
type claims struct {
	// Claimed is a folder. It has a file for each point of the scenario that some course has claimed.
	Claimed string
	// Trapped is a file that exists while a process of this course is trapped.
	Trapped string
}

// take claims a point that no process has claimed. It reports false while another process of the
// course is trapped.
func (c claims) take(point string) bool {
	if _, err := os.Stat(claimOf(c.Claimed, point)); err == nil || !createNew(c.Trapped) {
		return false
	}
	if !createNew(claimOf(c.Claimed, point)) { // another course was faster
		_ = os.Remove(c.Trapped)
		return false
	}
	return true
}

// release lets the next process be trapped.
func (c claims) release(t testing.TB) {
	t.Helper()
	if err := os.Remove(c.Trapped); err != nil {
		t.Fatal(err)
	}
}

func createNew(name string) bool {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
	}
	return err == nil
}

// claimOf is the file of a point that is claimed.
func claimOf(claimed, point string) string { return filepath.Join(claimed, url.PathEscape(point)) }

// unclaimed returns the points that no process has claimed.
func unclaimed(claimed string, points []string) (left []string) {
	for _, p := range points {
		if _, err := os.Stat(claimOf(claimed, p)); err != nil {
			left = append(left, p)
		}
	}
	return left
}

// course is one run of a scenario with two processes.
type course struct {
	scenario
	in     *installation
	h      *home
	trap   trap
	points []string
	claims claims

	both    [2]*process
	started int
	hits    map[*process]int // how many of its points are dealt with
}

// course runs the scenario with two processes. The first process to reach an unclaimed point is trapped there. While it
// is trapped, this step and the next one are completed. Then the trapped process is continued or replaced, and the
// course waits for the next point. The course ends when the scenario ends, or earlier if no point is left. At the end
// it checks the workspace.
func (sc scenario) course(t *testing.T, points []string, tr trap, claimed string) {
	in := install(t)
	c := &course{
		scenario: sc, in: in, h: sc.prepare(t, in), trap: tr, points: points,
		claims: claims{Claimed: claimed, Trapped: filepath.Join(t.TempDir(), "trapped")},
		hits:   make(map[*process]int),
	}
	for i := range c.both {
		c.start(t, i)
	}
	tried, rest := 0, 1
	for _, s := range sc.steps {
		if c.trapped() != nil {
			if rest--; rest < 0 {
				c.goOn(t)
				c.claims.release(t)
				tried, rest = tried+1, 1
			}
		}
		if len(unclaimed(claimed, points)) == 0 && !c.busy() {
			break
		}
		s.do(t, c.h)
	}
	// The last step may end before a process reaches its point. After this wait, no process may be trapped any more,
	// because the course could not continue it.
	wait.Until(t, "a point is reached, or none is left to reach", func() bool {
		return c.trapped() != nil || (tried > 0 || len(unclaimed(claimed, points)) == 0) && createNew(c.claims.Trapped)
	})
	if c.trapped() != nil {
		c.goOn(t)
	}
	c.h.checkAll(t)
}

// start starts a process to replace another one.
func (c *course) start(t *testing.T, i int) {
	t.Helper()
	c.started++
	p := c.in.process(t, fmt.Sprintf("node%d", c.started), func(config *processConfig) {
		c.configure(config)
		config.Armed, config.Trap, config.Claims = c.points, c.trap, c.claims
	})
	c.both[i] = p
	if c.trap != trapStop {
		return
	}
	go func() {
		for n := 0; p.nextHit(t.Context(), n) != ""; n++ {
			if err := c.in.endExclusives(t.Context(), p); err != nil && t.Context().Err() == nil {
				t.Error(err)
			}
			if c.waitsForAll {
				c.in.awaitTakeOver(t, p.node)
				p.signal(t, syscall.SIGCONT)
			}
		}
	}()
}

// busy reports whether a process has claimed a point and has not been released.
func (c *course) busy() bool {
	_, err := os.Stat(c.claims.Trapped)
	return err == nil
}

// trapped returns the trapped process, or nil.
func (c *course) trapped() *process {
	for _, p := range c.both {
		if len(p.reports("hit ")) > c.hits[p] {
			return p
		}
	}
	return nil
}

// goOn ends the trap. It replaces a killed process. It continues a stopped process, and checks that the late side
// effect of that process changes nothing.
func (c *course) goOn(t *testing.T) {
	t.Helper()
	i := 0
	if c.both[1] == c.trapped() {
		i = 1
	}
	victim, other := c.both[i], c.both[1-i]
	point := victim.nextHit(t.Context(), c.hits[victim])
	t.Logf("%s at %q", map[trap]string{trapKill: "killed", trapStop: "stopped"}[c.trap], point)
	c.hits[victim]++
	if c.trap == trapKill {
		wait.Until(t, "the process is dead", victim.dead)
		if len(unclaimed(c.claims.Claimed, c.points)) > 0 {
			c.start(t, i)
		}
	} else {
		if c.waitsForAll { // it was continued at once
			victim.await(t, "released "+point)
		} else {
			wait.Until(t, "the other process leads", other.leads)
			c.h.sameState(t, "the stopped process continues at "+point, func() {
				victim.signal(t, syscall.SIGCONT)
				victim.await(t, "released "+point)
				wait.Until(t, "the stopped process follows", func() bool { return !victim.leads() })
			})
		}
	}
	c.h.epochsGrow(t)
}
