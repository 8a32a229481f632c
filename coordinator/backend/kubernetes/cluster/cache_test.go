package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// later is a clock that tests move.
type later struct{ by atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// follow returns the cache of a fake cluster's Pods.
func follow(c *Client) (*Cache[*corev1.Pod], *later) {
	k, l := c.Follow("a=b").Pods, new(later)
	k.now = l.now
	return k, l
}

func wantPods(t *testing.T, k *Cache[*corev1.Pod], want string, ids ...workspace.ID) {
	t.Helper()
	pods, err := k.List(t.Context(), ids...)
	if err != nil || names(pods) != want {
		t.Errorf("%s, %v, want %s", names(pods), err, want)
	}
}

// wantNextPods does the same as wantPods, for the next listing that succeeds.
func wantNextPods(t *testing.T, k *Cache[*corev1.Pod], want string) {
	t.Helper()
	wait.For(t, "the cache is filled again", func() error {
		pods, err := k.List(t.Context())
		if err == nil && names(pods) != want {
			t.Fatalf("the first listing shows %s, want %s", names(pods), want)
		}
		return err
	})
}

func wantUnreachable(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || workspace.ReasonOf(err) != workspace.ReasonUnreachable {
		t.Errorf("%s: %v, want an error with the reason Unreachable", what, err)
	}
}

func TestList(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	f.put("one-job", "w1")
	f.put("two", "w2")
	k, _ := follow(f.connect())
	wantPods(t, k, "[one one-job two]")
	wantPods(t, k, "[one one-job]", "w1")
	wantPods(t, k, "[one one-job two]", "w1", "w2")
	wantPods(t, k, "[]", "w3")
	f.put("three", "w3")
	f.remove("one")
	wait.For(t, "the watch has told of it", func() error {
		return k.Await(t.Context(), "one", func(_ *corev1.Pod, exists bool) bool { return !exists })
	})
	wantPods(t, k, "[one-job three two]")
	wantPods(t, k, "[one-job]", "w1")
	wantPods(t, k, "[three]", "w3")
}

// TestStrip: fields that nothing reads are not kept.
func TestStrip(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	k, _ := follow(f.connect())
	pods, err := k.List(t.Context())
	if err != nil || len(pods) != 1 {
		t.Fatal(pods, err)
	}
	p := pods[0]
	if len(p.ManagedFields) != 0 || len(p.Annotations) != 1 || p.Annotations[spec.AnnotationPort] != "8080" || len(p.Spec.Containers[0].Env) != 0 || p.Spec.Containers[0].Image != "i" {
		t.Errorf("%+v", p)
	}
}

// TestIdle: listings cost no request.
func TestIdle(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	all := c.Follow("a=b")
	look := func() {
		_, err1 := all.Pods.List(t.Context())
		_, err2 := all.Claims.List(t.Context(), "w1")
		_, err3 := all.Jobs.List(t.Context())
		_, err4 := c.Identity(t.Context())
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
			t.Fatal(err1, err2, err3, err4)
		}
	}
	look()
	// In addition to the question on its first connection, Identity makes a request for the identity.
	before := f.asked()
	if len(before) != 3 || f.watches() != 3 {
		t.Errorf("%d watches, asked were %v; want the three watches", f.watches(), before)
	}
	for range 100 {
		look()
	}
	if after := f.asked(); len(after) != len(before) {
		t.Errorf("looks have cost requests: %v", after[len(before):])
	}
}

// TestAWatchThatEnds: after a watch that ends regularly, another one follows, and no event is missed.
func TestAWatchThatEnds(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	k, clock := follow(f.connect())
	wantPods(t, k, "[one]")
	f.endWatches()
	f.put("two", "w2")
	if err := k.Await(t.Context(), "two", func(_ *corev1.Pod, exists bool) bool { return exists }); err != nil {
		t.Fatal(err)
	}
	clock.by.Store(int64(time.Hour))
	// The watch that has ended may have reported the change. Then the next one may open only now.
	wantNextPods(t, k, "[one two]")
	for _, r := range f.asked() {
		if r != "GET /api/v1/namespaces/here/pods true" {
			t.Errorf("asked was %s", r)
		}
	}
}

// TestAnOutage: after some seconds without a watch nothing is known. The first listing after the outage shows the state
// of that moment, not the one from before the outage.
func TestAnOutage(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	k, clock := follow(f.connect())
	wantPods(t, k, "[one]")
	f.answers(away)
	f.endWatches()
	wait.Until(t, "the cluster has refused a watch", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return !k.following() && k.err != nil
	})
	wantPods(t, k, "[one]") // a watch may come back immediately
	clock.by.Store(int64(downLimit + time.Second))
	_, err := k.List(t.Context())
	wantUnreachable(t, "a listing", err)
	wantUnreachable(t, "waiting", k.Await(t.Context(), "one", func(*corev1.Pod, bool) bool { return false }))
	f.remove("one")
	f.put("two", "w2")
	f.answers(nil)
	wantNextPods(t, k, "[two]")
}

// TestAnExpiredWatch: when the cache opens a new watch, the cluster no longer has all events since the last watch.
func TestAnExpiredWatch(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	k, _ := follow(f.connect())
	wantPods(t, k, "[one]")
	f.mu.Lock()
	f.oldest = 3
	f.mu.Unlock()
	f.endWatches()
	f.remove("one")
	f.put("two", "w2")
	if err := k.Await(t.Context(), "two", func(_ *corev1.Pod, exists bool) bool { return exists }); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the listing is right", func() error {
		pods, err := k.List(t.Context())
		if err == nil && names(pods) != "[two]" {
			err = fmt.Errorf("it shows %s", names(pods))
		}
		return err
	})
}

// TestRestoredCluster: a cluster that was restored from a backup continues with older versions. A watch that began at a
// newer version stays open and reports nothing.
func TestRestoredCluster(t *testing.T) {
	f := newFake(t, "A")
	for range 9 {
		f.put("one", "w1")
	}
	k, _ := follow(f.connect())
	k.silence = 1200 * time.Millisecond // the reflector starts over in any case after a watch of less than a second
	wantPods(t, k, "[one]")
	f.mu.Lock()
	delete(f.pods, "one")
	f.rv, f.log = 3, nil
	f.mu.Unlock()
	f.put("two", "w2")
	wait.For(t, "the listing is right", func() error {
		pods, err := k.List(t.Context())
		if err == nil && names(pods) != "[two]" {
			err = fmt.Errorf("it shows %s", names(pods))
		}
		return err
	})
}

// TestNeverFilled: a cluster that does not answer at first does not count as an empty one.
func TestNeverFilled(t *testing.T) {
	f := newFake(t, "A")
	f.answers(away)
	k, _ := follow(f.connect())
	_, err := k.List(t.Context())
	wantUnreachable(t, "a listing", err)
	wantUnreachable(t, "waiting", k.Await(t.Context(), "one", func(*corev1.Pod, bool) bool { return true }))
	f.answers(nil)
	wait.For(t, "it answers", func() error { _, err := k.List(t.Context()); return err })
}

// TestAnotherCluster: a cache never shows its objects as the state of a cluster other than the one that filled it.
func TestAnotherCluster(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	c := f.connect()
	k, _ := follow(c)
	wantPods(t, k, "[one]")
	f.is("B")
	f.CloseClientConnections()
	wait.Until(t, "the other cluster is noticed", func() bool { _, err := c.watch.ID(); return err != nil })
	_, err := k.List(t.Context())
	wantUnreachable(t, "a listing", err)
	_, err = c.Identity(t.Context())
	wantUnreachable(t, "the identity", err)
	f.is("A")
	wait.For(t, "the former one is back", func() error { _, err := k.List(t.Context()); return err })
	k.begin("B") // as after the other one has been accepted
	k.mu.Lock()
	defer k.mu.Unlock()
	wantUnreachable(t, "a listing before the other one has been asked", k.fresh())
}

func TestAwait(t *testing.T) {
	f := newFake(t, "A")
	k, _ := follow(f.connect())
	seen := make(chan string, 10)
	met := make(chan error, 1)
	asked := make(chan struct{}, 10)
	go func() {
		met <- k.Await(t.Context(), "one", func(p *corev1.Pod, exists bool) bool {
			if !exists {
				asked <- struct{}{}
				return false
			}
			seen <- p.ResourceVersion
			return true
		})
	}()
	<-asked
	// Await sees even a short-lived state.
	f.put("one", "w1")
	f.remove("one")
	if err := <-met; err != nil || <-seen != "1" {
		t.Errorf("waiting: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Await(ctx, "two", func(_ *corev1.Pod, exists bool) bool { return exists }); err == nil {
		t.Error("waiting did not end with its context")
	}
	if len(k.waiting) != 0 {
		t.Errorf("%d still wait", len(k.waiting))
	}
}

func TestChanges(t *testing.T) {
	f := newFake(t, "A")
	f.put("old", "w0")
	c := f.connect()
	all := c.Follow("a=b")
	ctx, cancel := context.WithCancel(t.Context())
	changes := all.Changes(ctx)
	wantPods(t, all.Pods, "[old]")
	f.put("one", "w1")
	if id := <-changes; id != "w1" {
		t.Errorf("a hint for %q", id)
	}
	f.remove("one")
	if id := <-changes; id != "w1" {
		t.Errorf("a hint for %q", id)
	}
	wantPods(t, all.Pods, "[old]") // the hint's change is there
	cancel()
	for range changes {
	}
	more := all.Changes(t.Context())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	for range more {
	}
	for range all.Changes(t.Context()) {
	}
	if _, err := all.Claims.List(t.Context()); err == nil {
		t.Error("a closed client lists")
	}
}

// TestAPanic: a panic ends neither the process nor the cache. Until the objects are followed again, their state is
// unknown.
func TestAPanic(t *testing.T) {
	f := newFake(t, "A")
	f.put("one", "w1")
	k, clock := follow(f.connect())
	var broken atomic.Bool
	var panics atomic.Int32
	changed := k.changed
	k.changed = func(id workspace.ID) {
		if broken.Load() {
			panics.Add(1)
			panic("injected")
		}
		changed(id)
	}
	wantPods(t, k, "[one]")
	broken.Store(true)
	f.put("two", "w2")
	wait.Until(t, "a change panics", func() bool { return panics.Load() > 0 })
	wait.Until(t, "the panic is why nothing is known", func() bool {
		clock.by.Add(int64(time.Hour)) // whenever the watch closed, it was long ago
		_, err := k.List(t.Context())
		if err == nil { // the watch is still open, or open again: another change panics
			f.put("two", "w2")
		}
		return guard.Panicked(err) && workspace.ReasonOf(err) == workspace.ReasonUnreachable
	})
	broken.Store(false)
	wantNextPods(t, k, "[one two]")
}
