package pull_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
)

var limits = pull.Limits{Max: 2, Stall: 5 * time.Minute}

// TestEachImageOnceAndSoManyAtATime.
func TestEachImageOnceAndSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running := map[string]int{}
		release := make(chan struct{})
		p := pull.New(func(ctx context.Context, image string, _ func(int64, int64)) error {
			mu.Lock()
			running[image]++
			mu.Unlock()
			<-release
			return nil
		}, limits)
		defer p.Close()
		var changes atomic.Int32
		pulls := map[string]*pull.Pull{}
		for _, image := range []string{"a", "b", "a", "c", "c", "a"} {
			pulls[image] = p.Join(image, func() { changes.Add(1) })
		}
		synctest.Wait()
		if len(running) != 2 || running["a"] != 1 || running["b"] != 1 {
			t.Fatalf("running %v, want a and b once each", running)
		}
		if s := p.Status(pulls["c"]); s != (pull.Status{Image: "c", Queued: true}) {
			t.Errorf("c: %+v", s)
		}
		close(release)
		synctest.Wait()
		for image, x := range pulls {
			if s := p.Status(x); !s.Ended || s.Err != nil {
				t.Errorf("%s: %+v", image, s)
			}
		}
		if running["c"] != 1 || changes.Load() != 6 {
			t.Errorf("running %v, %d changes; want c once, and all that wait told", running, changes.Load())
		}
		if again := p.Join("a", func() {}); again == pulls["a"] {
			t.Error("a pull that has ended is joined")
		}
		synctest.Wait()
	})
}

// TestProgress changes at most every three seconds.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		step := make(chan [2]int64)
		p := pull.New(func(_ context.Context, _ string, progress func(done, total int64)) error {
			for s := range step {
				progress(s[0], s[1])
			}
			return nil
		}, limits)
		defer p.Close()
		var changes atomic.Int32
		x := p.Join("large:1", func() { changes.Add(1) })
		for _, c := range []struct {
			after           time.Duration
			done, total     int64
			wantDone, wants int64
			changes         int32
		}{
			{0, 10e6, 0, 10e6, 0, 1},
			{time.Second, 60e6, 540e6, 10e6, 0, 1},
			{2 * time.Second, 120e6, 540e6, 120e6, 540e6, 2},
			{time.Hour / 60, 121e6, 540e6, 121e6, 540e6, 3},
			{10 * time.Second, 900e3, 3e6, 900e3, 3e6, 4},
		} {
			time.Sleep(c.after)
			step <- [2]int64{c.done, c.total}
			synctest.Wait()
			if s := p.Status(x); s != (pull.Status{Image: "large:1", Done: c.wantDone, Total: c.wants}) || changes.Load() != c.changes {
				t.Errorf("%+v after %d changes, want %d of %d after %d", s, changes.Load(), c.wantDone, c.wants, c.changes)
			}
		}
		close(step)
		synctest.Wait()
	})
}

// TestAPullWithoutProgressEnds, and one with progress does not.
func TestAPullWithoutProgressEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := pull.New(func(ctx context.Context, image string, progress func(done, total int64)) error {
			for i := range int64(10) {
				progress(i, 100)
				time.Sleep(4 * time.Minute)
			}
			if image == "stuck" {
				for ctx.Err() == nil {
					progress(9, 100) // the same again is no progress
					time.Sleep(time.Minute)
				}
			}
			return ctx.Err()
		}, limits)
		defer p.Close()
		good, stuck := p.Join("good", func() {}), p.Join("stuck", func() {})
		time.Sleep(2 * time.Hour)
		if s := p.Status(good); !s.Ended || s.Err != nil {
			t.Errorf("one with progress: %+v", s)
		}
		if s := p.Status(stuck); !s.Ended || s.Err == nil || !strings.Contains(s.Err.Error(), "it got no further for 5m0s") {
			t.Errorf("one that is stuck: %+v", s)
		}
	})
}

// TestLimitsChangeWhilePullsRun, and the end of the pool ends them.
func TestLimitsChangeWhilePullsRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		p := pull.New(func(ctx context.Context, _ string, _ func(int64, int64)) error {
			running.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}, pull.Limits{Max: 1, Stall: time.Hour})
		var all []*pull.Pull
		for _, image := range []string{"a", "b", "c"} {
			all = append(all, p.Join(image, func() {}))
		}
		synctest.Wait()
		if running.Load() != 1 {
			t.Errorf("%d run, want 1", running.Load())
		}
		p.Apply(pull.Limits{Max: 3, Stall: time.Hour})
		synctest.Wait()
		if running.Load() != 3 {
			t.Errorf("%d run, want 3", running.Load())
		}
		p.Close()
		for _, x := range all {
			if s := p.Status(x); !s.Ended || !errors.Is(s.Err, context.Canceled) {
				t.Errorf("after the end: %+v", s)
			}
		}
	})
}

// TestAFailureNamesTheImage: it reaches all waiters, and the next one tries again.
func TestAFailureNamesTheImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("manifest unknown")
		var tries atomic.Int32
		p := pull.New(func(context.Context, string, func(int64, int64)) error {
			if tries.Add(1) == 1 {
				return refused
			}
			return nil
		}, limits)
		defer p.Close()
		var told atomic.Int32
		x := p.Join("editor:9", func() { told.Add(1) })
		p.Join("editor:9", func() { told.Add(1) })
		synctest.Wait()
		s := p.Status(x)
		if !s.Ended || !errors.Is(s.Err, refused) || !strings.Contains(s.Err.Error(), "pulling image editor:9") || told.Load() != 2 {
			t.Errorf("%+v, told %d", s, told.Load())
		}
		again := p.Join("editor:9", func() {})
		synctest.Wait()
		if s := p.Status(again); !s.Ended || s.Err != nil || tries.Load() != 2 {
			t.Errorf("the next one: %+v after %d tries", s, tries.Load())
		}
	})
}

// TestAhead: pulls without a waiter run one at a time, begin only while nothing else is pulled, and take no place away
// from others. If a workspace needs an image that is queued to be pulled ahead, its pull moves to the queue of awaited
// pulls.
func TestAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, release := make(chan string, 10), map[string]chan error{}
		for _, image := range []string{"first", "second", "third", "needed"} {
			release[image] = make(chan error)
		}
		p := pull.New(func(ctx context.Context, image string, _ func(int64, int64)) error {
			began <- image
			select {
			case err := <-release[image]:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}, pull.Limits{Max: 1, Stall: time.Hour})
		defer p.Close()
		begins := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for _, image := range want {
				select {
				case got := <-began:
					if got != image {
						t.Fatalf("%s is pulled, want %s", got, image)
					}
				default:
					t.Fatalf("nothing more is pulled, want %s", image)
				}
			}
			if len(began) > 0 {
				t.Fatalf("%s is pulled, too", <-began)
			}
		}
		ended := map[string]chan error{}
		ahead := func(ctx context.Context, image string) {
			done := make(chan error, 1)
			ended[image] = done
			go func() { done <- p.Ahead(ctx, image) }()
			synctest.Wait()
		}
		ahead(t.Context(), "first")
		begins("first")
		ahead(t.Context(), "second")
		ctx, cancel := context.WithCancel(t.Context())
		ahead(ctx, "third")
		begins()
		p.Join("needed", func() {})
		begins("needed") // beside the one without waiters
		p.Join("second", func() {})
		begins()
		refused := errors.New("manifest unknown")
		release["first"] <- refused
		if err := <-ended["first"]; !errors.Is(err, refused) {
			t.Errorf("first: %v", err)
		}
		begins() // somebody waits for another one
		release["needed"] <- nil
		begins("second")
		release["second"] <- nil
		if err := <-ended["second"]; err != nil {
			t.Errorf("second: %v", err)
		}
		begins("third")
		cancel()
		if err := <-ended["third"]; !errors.Is(err, context.Canceled) {
			t.Errorf("third: %v", err)
		}
	})
}

// TestAPullThatEverybodyHasLeftEnds, and frees its place. A pull that still has a waiter continues, and so does a pull
// that was requested ahead.
func TestAPullThatEverybodyHasLeftEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		running := map[string]int{}
		count := func(image string, n int) { mu.Lock(); defer mu.Unlock(); running[image] += n }
		p := pull.New(func(ctx context.Context, image string, _ func(int64, int64)) error {
			count(image, 1)
			defer count(image, -1)
			<-ctx.Done()
			return ctx.Err()
		}, pull.Limits{Max: 1, Stall: time.Hour})
		defer p.Close()
		want := func(what string, images ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			n := 0
			for _, image := range images {
				if n += running[image]; running[image] != 1 {
					t.Errorf("%s: %v, want %v", what, running, images)
				}
			}
			for _, x := range running {
				n -= x
			}
			if n != 0 {
				t.Errorf("%s: %v, want %v alone", what, running, images)
			}
		}
		nothing := func() {}
		first, again, queued, next := p.Join("a", nothing), p.Join("a", nothing), p.Join("b", nothing), p.Join("c", nothing)
		p.Leave(first)
		want("one of two has left", "a")
		p.Leave(queued)
		p.Leave(again)
		anew := p.Join("a", nothing)
		if anew == again {
			t.Error("a pull that ends is joined")
		}
		want("both have left, and nobody waits for b", "c")
		p.Leave(next)
		want("who comes later pulls it anew", "a")
		p.Leave(anew)
		want("none")
		go func() { _ = p.Ahead(t.Context(), "d") }()
		want("pulled ahead", "d")
		p.Leave(p.Join("d", nothing))
		want("pulled ahead, joined and left", "d")
	})
}
