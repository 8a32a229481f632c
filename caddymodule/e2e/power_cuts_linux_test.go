package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
)

var powerCuts = flag.Int("power", 0, "how many power cuts TestPower makes; it does not run without")

// written are the numbers in the two files of a home. One file is written in place and synced with
// fdatasync. The other file is replaced by a new file each time, which was synced with fsync before.
type written struct{ inPlace, replaced int }

// powerHome is a workspace, and the numbers that were written to its home.
type powerHome struct {
	id, base string
	archives map[string]written // the content of some of its archives
	stop     func()             // ends the writing; nil while nothing writes

	mu      sync.Mutex
	atLeast written // the acknowledged numbers
	tried   int     // the number that was written last, acknowledged or not
}

// powered is a user of a [poweredHost].
type powered struct {
	*poweredHost
	me *user
}

// newHome creates a workspace whose files hold a first number.
func (p *powered) newHome(t *testing.T, name string) *powerHome {
	t.Helper()
	h := &powerHome{id: p.me.create(t, name).ID, archives: make(map[string]written), atLeast: written{1, 1}, tried: 1}
	h.base = p.me.enter(t, h.id)
	p.me.run(t, h.base, writing(1))
	return h
}

// writing is the command that writes a number to both files.
func writing(n int) string {
	return fmt.Sprintf("printf %%08d %d | dd of=in-place conv=notrunc 2>/dev/null && sync -d in-place && "+
		"printf %%08d %[1]d >new && sync new && mv new replaced && sync .", n)
}

// write writes one number after the other to the home, until the power cut or until stop is called.
func (p *powered) write(t *testing.T, h *powerHome) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn, _, err := websocket.Dial(ctx, strings.Replace(h.base, "http", "ws", 1)+"ws", &websocket.DialOptions{HTTPClient: p.me.http})
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		var seen strings.Builder
		for ctx.Err() == nil {
			h.mu.Lock()
			h.tried++
			n := h.tried
			h.mu.Unlock()
			// The shell computes the mark, so that it is not in the echo of the typed command.
			if conn.Write(ctx, websocket.MessageBinary, []byte(writing(n)+fmt.Sprintf(" && echo W''%dE\n", n))) != nil {
				return
			}
			for seen.Reset(); !strings.Contains(seen.String(), fmt.Sprintf("W%dE", n)); {
				_, b, err := conn.Read(ctx)
				if err != nil {
					return
				}
				seen.Write(b)
			}
			h.mu.Lock()
			h.atLeast = written{n, n}
			h.mu.Unlock()
		}
	})
	h.stop = func() {
		cancel()
		_ = conn.CloseNow()
		work.Wait()
		h.stop = nil
	}
	t.Cleanup(func() {
		if h.stop != nil { // the test has failed
			h.stop()
		}
	})
}

// in brings a home's workspace to a phase.
func (p *powered) in(t *testing.T, h *powerHome, phase string) workspace {
	t.Helper()
	p.me.setDesiredState(t, h.id, phase)
	w := p.me.awaitPhase(t, h.id, phase)
	if phase == "RUNNING" {
		wait.For(t, "the workspace answers", func() error { return p.me.showsTerminal(t, h.base) })
	}
	return w
}

// check wakes a workspace and compares the files in its home with the written numbers. After that, the home must have
// at least the numbers that were found.
func (p *powered) check(t *testing.T, h *powerHome, when string) {
	t.Helper()
	p.in(t, h, "RUNNING")
	var got written
	text := p.me.run(t, h.base, `echo "$(cat in-place) $(cat replaced)"`)
	if _, err := fmt.Sscanf(text, "%d %d", &got.inPlace, &got.replaced); err != nil {
		t.Fatalf("%s the files hold %q: %v", when, text, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if got.inPlace < h.atLeast.inPlace || got.replaced < h.atLeast.replaced || max(got.inPlace, got.replaced) > h.tried {
		t.Fatalf("%s the files hold %+v; %+v was acknowledged, and up to %d was tried", when, got, h.atLeast, h.tried)
	}
	h.atLeast = got
}

// powerOperation is the operation during a power cut.
type powerOperation struct {
	// from is the home's phase before it.
	from string
	// writes reports whether numbers are written to the home meanwhile.
	writes bool
	// begin begins it. If the operation was acknowledged, its result must survive the power cut.
	begin func(t *testing.T, p *powered, h *powerHome, random *rand.Rand)
	// within is the longest time that the operation takes: the power is cut at a random moment in that time.
	within time.Duration
	// undo brings the workspace into a state from which it can be woken.
	undo func(t *testing.T, p *powered, h *powerHome)
}

// becomes begins the operation that brings a workspace to a phase.
func becomes(phase string) func(*testing.T, *powered, *powerHome, *rand.Rand) {
	return func(t *testing.T, p *powered, h *powerHome, _ *rand.Rand) { p.me.setDesiredState(t, h.id, phase) }
}

// deleted deletes a workspace.
func deleted(t *testing.T, p *powered, h *powerHome, _ *rand.Rand) {
	p.me.call(t, http.MethodDelete, "/api/v1/workspaces/"+h.id, nil, http.StatusAccepted, nil)
}

// undeleted undoes the deletion if it is not complete yet.
func undeleted(t *testing.T, p *powered, h *powerHome) {
	wait.For(t, "the deletion is undone", func() error {
		res, answer := p.me.request(t, http.MethodPost, "/api/v1/workspaces/"+h.id+"/undelete", nil)
		if res.StatusCode != http.StatusOK {
			return errors.New(answer)
		}
		return nil
	})
}

var powerOperations = map[string]powerOperation{
	"use":                    {from: "RUNNING", writes: true, within: time.Second},
	"doze":                   {from: "RUNNING", within: 5 * time.Second}, // it is left alone
	"sleep":                  {from: "RUNNING", writes: true, begin: becomes("STANDBY"), within: time.Second},
	"start":                  {from: "STANDBY", begin: becomes("RUNNING"), within: time.Second},
	"archive":                {from: "RUNNING", writes: true, begin: becomes("ARCHIVED"), within: 4 * time.Second},
	"archive of what sleeps": {from: "STANDBY", begin: becomes("ARCHIVED"), within: 3 * time.Second},
	"restore":                {from: "ARCHIVED", begin: becomes("RUNNING"), within: 3 * time.Second},
	"go on": {from: "RUNNING", within: time.Second, begin: func(t *testing.T, p *powered, h *powerHome, _ *rand.Rand) {
		p.awaitFrozen(t, h.id, true)
		p.write(t, h)
	}},
	"create": {from: "RUNNING", writes: true, within: time.Second, begin: func(t *testing.T, p *powered, _ *powerHome, random *rand.Rand) {
		var w workspace
		p.me.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": fmt.Sprint("new-", random.Uint64())}, http.StatusCreated, &w)
		t.Logf("%s is created", w.ID)
	}},
	"go back to an older archive": {from: "RUNNING", within: 6 * time.Second, begin: func(t *testing.T, p *powered, h *powerHome, random *rand.Rand) {
		all := slices.Sorted(maps.Keys(h.archives))
		if len(all) == 0 {
			return // nothing was archived yet
		}
		key := all[random.IntN(len(all))]
		res, answer := p.me.request(t, http.MethodPost, "/api/v1/workspaces/"+h.id+"/archives/restore", map[string]string{"archive": key})
		if res.StatusCode != http.StatusAccepted {
			t.Fatalf("going back to %s: %s %s", key, res.Status, answer)
		}
		h.atLeast = h.archives[key]
		h.tried = max(h.atLeast.inPlace, h.atLeast.replaced)
	}, undo: func(t *testing.T, p *powered, h *powerHome) {
		wait.For(t, "it has gone back", func() error {
			if _, answer := p.me.request(t, http.MethodGet, "/api/v1/workspaces/"+h.id, nil); !strings.Contains(answer, `"revert":null`) {
				return errors.New(answer)
			}
			return nil
		})
	}},
	"delete": {from: "RUNNING", writes: true, begin: deleted, within: 4 * time.Second, undo: undeleted},
	"undelete": {from: "STANDBY", within: 4 * time.Second, begin: func(t *testing.T, p *powered, h *powerHome, random *rand.Rand) {
		deleted(t, p, h, random)
		pauseFor(t.Context(), time.Duration(random.Int64N(int64(3*time.Second))))
		undeleted(t, p, h)
	}},
}

// TestPower cuts the power of a whole host at random moments of every operation. Everything that was written and synced
// in a home is there when its workspace runs again, and also after the workspace was archived and restored. No
// workspace ends in ERROR. `make test-power` runs it.
func TestPower(t *testing.T) {
	if *powerCuts == 0 {
		t.Skip("make test-power says how many power cuts it makes")
	}
	number := seed.New(t)
	fmt.Printf("power: SEED=%d\n", number)
	random := seed.Source(number)
	p := &powered{poweredHost: newPoweredHost(t, append([]string{
		"COORDINATOR_KEEP_ARCHIVES=3", "LIMITS_MAX_RUNNING_PER_USER=9",
	}, dozing...)...)}
	p.me = p.admin(t)
	h, other := p.newHome(t, "home"), p.newHome(t, "another")
	names := slices.Sorted(maps.Keys(powerOperations))
	for i := range *powerCuts {
		if i%len(names) == 0 { // each of them, in another order
			random.Shuffle(len(names), func(a, b int) { names[a], names[b] = names[b], names[a] })
		}
		name := names[i%len(names)]
		op := powerOperations[name]
		p.in(t, other, "RUNNING")
		p.write(t, other)
		p.in(t, h, op.from)
		if op.writes {
			p.write(t, h)
		}
		if op.begin != nil {
			op.begin(t, p, h, random)
		}
		moment := time.Duration(random.Int64N(int64(op.within)))
		pauseFor(t.Context(), moment)
		p.lose(t)
		for _, one := range []*powerHome{h, other} {
			if one.stop != nil {
				one.stop()
			}
		}
		p.boot(t)
		fmt.Printf("power: cut %d of %d, %s after %s began\n", i+1, *powerCuts, moment.Round(time.Millisecond), name)
		if op.undo != nil {
			op.undo(t, p, h)
		}
		when := fmt.Sprintf("after the power went %s after %q began", moment, name)
		p.check(t, other, when)
		p.check(t, h, when)
		w := p.in(t, h, "ARCHIVED")
		h.archives[w.ArchiveKey] = h.atLeast
		p.check(t, h, when+", and an archive,")
		p.forget(t, h)
	}
}

// forget makes a home forget the archives that are no longer kept, and deletes everything else that was created.
func (p *powered) forget(t *testing.T, h *powerHome) {
	t.Helper()
	var kept struct {
		Items []struct {
			Key string `json:"key"`
		} `json:"items"`
	}
	p.me.call(t, http.MethodGet, "/api/v1/workspaces/"+h.id+"/archives", nil, http.StatusOK, &kept)
	left := make(map[string]written)
	for _, a := range kept.Items {
		if was, ok := h.archives[a.Key]; ok {
			left[a.Key] = was
		}
	}
	h.archives = left
	var all struct {
		Items []struct{ ID, Name string } `json:"items"`
	}
	p.me.call(t, http.MethodGet, "/api/v1/workspaces", nil, http.StatusOK, &all)
	for _, w := range all.Items {
		if strings.HasPrefix(w.Name, "new-") {
			p.me.awaitPhase(t, w.ID, "RUNNING")
			p.me.call(t, http.MethodDelete, "/api/v1/workspaces/"+w.ID, nil, http.StatusAccepted, nil)
		}
	}
}
