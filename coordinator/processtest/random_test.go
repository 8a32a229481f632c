package processtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	randomProcesses = 3
	randomShards    = 8
	// randomFor bounds the time in which faults happen, and randomRound the time between two faults.
	randomFor   = 40 * time.Second
	randomRound = 3 * time.Second
)

// randomWorkspaces is the number of workspaces: fewer on a cluster, whose nodes take seconds for what Docker does in
// tenths of a second.
func randomWorkspaces() int {
	if devenv.OnKubernetes() {
		return 6
	}
	return 20
}

// TestNoWorkspaceIsDrivenByTwo: three processes share the workspaces. They are killed, restarted, stopped and
// continued at random, while people change their desired states. With Docker, some workspaces doze, and sleeping ones
// keep their network. The test checks the rows' history and the engine's events: no leader acted after a later leader
// of the same shard had acted, and no volume ever had two users. In the end every workspace is in its desired state,
// with its files.
func TestNoWorkspaceIsDrivenByTwo(t *testing.T) {
	if !devenv.OnKubernetes() { // whose one small node is full with it
		t.Parallel()
	}
	r := seed.Source(seed.New(t))
	in := install(t)
	in.config.Shards = randomShards
	if !devenv.OnKubernetes() {
		in.config.Warm = randomWorkspaces()
	}
	log := in.watch(t)
	crowd := &crowd{installation: in, random: r}
	for i := range randomProcesses {
		crowd.start(t, i)
	}
	homes := make([]*home, randomWorkspaces())
	for i := range homes {
		homes[i] = in.create(t)
	}
	together(homes, func(h *home) { h.await(t, workspace.PhaseRunning); h.write(t, "one") })

	terms := func() int {
		return postgrestest.Value[int](t, in.own, `SELECT sum(epoch)::int FROM system_locks WHERE lock_name LIKE 'coordinator/%'`)
	}
	const enough = 2 * randomShards
	rounds, joined := 0, 0   // in how many rounds a container has joined the network of the one before
	lacking := func() bool { // a slow machine, or luck, may need longer for them
		return terms() < enough || !devenv.OnKubernetes() && (joined == 0 || happened(log.list())[inspect.ActionFreeze] == 0)
	}
	for begin := time.Now(); time.Since(begin) < randomFor || time.Since(begin) < wait.Timeout && lacking(); rounds++ {
		crowd.disturb(t)
		for _, i := range r.Perm(len(homes))[:len(homes)/3] {
			if !devenv.OnKubernetes() && r.IntN(4) == 0 && homes[i].doze(t) {
				continue
			}
			wanted := []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived}[r.IntN(3)]
			if !homes[i].row(t).DozeAt.IsZero() && r.IntN(2) == 0 {
				wanted = workspace.DesiredRunning
			}
			_ = homes[i].service.SetDesired(t.Context(), in.owner, homes[i].id, wanted) // refused during an operation
		}
		before, over := in.transitions(t), time.Now().Add(randomRound)
		wait.Until(t, "some of it is done", func() bool {
			return time.Now().After(over) || in.transitions(t) > before+len(homes)/2
		})
		if !devenv.OnKubernetes() {
			if _, has := in.sandbox(t, ""); has {
				joined++
			}
		}
	}
	crowd.heal(t)
	together(homes, func(h *home) { h.runs(t) })
	if !devenv.OnKubernetes() {
		checkIdle(t, log.list(), joined)
	}
	t.Logf("%d rounds, %d terms, %d transitions, %d events of the engine", rounds, terms(), in.transitions(t), len(log.list()))
	if n := terms(); n < enough {
		t.Errorf("only %d terms of %d shards: nothing was taken over", n, randomShards)
	}
	in.epochsGrow(t)
	checkEvents(t, log.list())
}

// checkIdle fails the test unless some workspaces have dozed and some have started with their kept network. Without
// that, the faults would not have disturbed these features.
func checkIdle(t testing.TB, events []inspect.Event, joined int) {
	t.Helper()
	times := happened(events)
	t.Logf("%d containers froze, %d went on; in %d rounds, some had joined a network", times[inspect.ActionFreeze], times[inspect.ActionThaw], joined)
	if times[inspect.ActionFreeze] == 0 || joined == 0 {
		t.Error("no container froze, or none has joined a network")
	}
}

// happened counts events.
func happened(events []inspect.Event) map[inspect.Action]int {
	times := make(map[inspect.Action]int)
	for _, e := range events {
		times[e.Action]++
	}
	return times
}

// together does something with all homes at once.
func together(homes []*home, do func(*home)) {
	var wg sync.WaitGroup
	for _, h := range homes {
		wg.Go(func() { do(h) })
	}
	wg.Wait()
}

// transitions returns how many transitions leaders have recorded.
func (in *installation) transitions(t testing.TB) int {
	t.Helper()
	return postgrestest.Value[int](t, in.own, `SELECT count(*)::int FROM workspace_history WHERE epoch IS NOT NULL`)
}

// crowd contains the processes of an installation. Some of them are dead or stopped.
type crowd struct {
	*installation
	random  *rand.Rand
	running [randomProcesses]*process
	stopped [randomProcesses]bool
	started int
}

// start starts the process in that place.
func (c *crowd) start(t testing.TB, i int) {
	t.Helper()
	c.started++
	c.running[i], c.stopped[i] = c.process(t, fmt.Sprintf("node-%d-%d", i, c.started), nil), false
}

// disturb does something to one process. At least one always works.
func (c *crowd) disturb(t testing.TB) {
	t.Helper()
	i, working := c.random.IntN(randomProcesses), 0
	for j := range c.running {
		if c.running[j] != nil && !c.stopped[j] {
			working++
		}
	}
	switch p := c.running[i]; {
	case p == nil:
		c.start(t, i)
	case c.stopped[i]:
		p.signal(t, syscall.SIGCONT)
		c.stopped[i] = false
	case working == 1:
	case c.random.IntN(2) == 0:
		p.signal(t, syscall.SIGKILL)
		c.running[i] = nil
	default:
		p.signal(t, syscall.SIGSTOP)
		c.stopped[i] = true
	}
}

// heal continues and restarts all processes.
func (c *crowd) heal(t testing.TB) {
	t.Helper()
	for i, p := range c.running {
		if p == nil {
			c.start(t, i)
		} else if c.stopped[i] {
			p.signal(t, syscall.SIGCONT)
			c.stopped[i] = false
		}
	}
}

// eventLog is what the engine has reported about an installation's containers.
type eventLog struct {
	mu  sync.Mutex
	all []inspect.Event
}

func (l *eventLog) list() []inspect.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.all)
}

// watch records the engine's events until the end of the test.
func (in *installation) watch(t testing.TB) *eventLog {
	t.Helper()
	l := new(eventLog)
	ended, err := in.engine.Follow(t.Context(), func(e inspect.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all = append(l.all, e)
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := <-ended; err != nil && t.Context().Err() == nil {
			t.Errorf("the backend's events ended: %v", err)
		}
	}()
	return l
}

// checkEvents fails the test in two cases: a container was started in an earlier term than another container of the
// same workspace that had been started before, or two containers used a workspace's volume at the same time.
func checkEvents(t testing.TB, all []inspect.Event) {
	t.Helper()
	type state struct {
		epoch int64
		user  string // the container that runs
	}
	states := make(map[string]*state)
	starts := 0
	for _, e := range all {
		id, name := e.Workspace, e.Name
		if id == "" {
			continue // a helper that counts what the homes hold; it changes nothing in them
		}
		s := states[id]
		if s == nil {
			s = new(state)
			states[id] = s
		}
		switch e.Action {
		case inspect.ActionStart:
			starts++
			_, text, _ := strings.Cut(e.Term, ":")
			epoch, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				t.Errorf("%s has the term %q", name, e.Term)
			}
			if epoch < s.epoch {
				t.Errorf("%s was started in term %d, after term %d had acted", name, epoch, s.epoch)
			}
			if s.user != "" {
				t.Errorf("%s was started while %s used the volume", name, s.user)
			}
			s.epoch, s.user = max(s.epoch, epoch), name
		case inspect.ActionDie:
			if s.user == name {
				s.user = ""
			}
		}
	}
	if len(states) != randomWorkspaces() || starts < 2*randomWorkspaces() {
		t.Errorf("the engine's log has %d workspaces and %d starts: it does not show what happened", len(states), starts)
	}
}
