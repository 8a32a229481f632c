package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
)

// withSession starts LISTEN, waits until it has begun, and returns a function that ends it.
func withSession(t *testing.T, s *DB) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	began, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Listen(ctx, func() { close(began) }, func(Notification) {})
	}()
	select {
	case <-began:
	case <-done:
		t.Fatal("LISTEN has ended at once")
	}
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

// again opens a second store on the same database, as if in another process.
func again(t *testing.T, s *DB) *DB {
	t.Helper()
	other, err := Open(s.ConnConfig().ConnString(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	return other
}

func writers(t *testing.T, s *DB) Writers {
	t.Helper()
	w, err := s.Writers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func flushed(t *testing.T, s *DB, node string, age, due time.Duration) {
	t.Helper()
	if err := s.WriterFlushed(t.Context(), node, age, due); err != nil {
		t.Fatal(err)
	}
}

func TestWritersTellWhenTheyHaveWrittenAndWhenTheyWillAgain(t *testing.T) {
	a := open(t)
	if w := writers(t, a); len(w.All) != 0 || time.Since(w.Now).Abs() > time.Minute {
		t.Fatalf("at first: %+v", w)
	}
	b := again(t, a)
	flushed(t, a, "a", 5*time.Second, time.Minute)
	flushed(t, b, "b", 0, -time.Second)
	flushed(t, a, "a", 3*time.Second, time.Minute)
	got := writers(t, a)
	if len(got.All) != 2 {
		t.Fatalf("%d writers: %+v", len(got.All), got.All)
	}
	for _, w := range got.All {
		age := got.Now.Sub(w.FlushedAt)
		switch w.Node {
		case "a":
			if w.Late || age < 3*time.Second || age > 30*time.Second {
				t.Errorf("a has written %s ago, late %v", age, w.Late)
			}
		case "b":
			if !w.Late || age > 30*time.Second {
				t.Errorf("b has written %s ago, late %v", age, w.Late)
			}
		}
		if w.Gone {
			t.Errorf("%s is gone without ever having had a session", w.Node)
		}
	}
	if err := b.WriterGone(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := writers(t, a); len(got.All) != 1 || got.All[0].Node != "a" {
		t.Fatalf("after b has ended: %+v", got.All)
	}
}

func TestAProcessThatLosesItsSessionIsGone(t *testing.T) {
	a := open(t)
	b := again(t, a)
	withSession(t, a)
	stop := withSession(t, b)
	flushed(t, a, "a", 0, time.Hour)
	flushed(t, b, "b", 0, time.Hour)
	gone := func() map[string]bool {
		out := map[string]bool{}
		for _, w := range writers(t, a).All {
			out[w.Node] = w.Gone
		}
		return out
	}
	if g := gone(); g["a"] || g["b"] {
		t.Fatalf("gone while both listen: %v", g)
	}
	stop() // as when it is killed: its connections close
	wait.Until(t, "b is gone and a is not", func() bool { g := gone(); return g["b"] && !g["a"] })
	withSession(t, b)
	if g := gone(); g["b"] {
		t.Error("b is gone although it listens again")
	}
}

func TestWritersOfLongAgoAreForgotten(t *testing.T) {
	a := open(t)
	b := again(t, a)
	flushed(t, b, "b", 25*time.Hour, -24*time.Hour)
	flushed(t, a, "a", 23*time.Hour, -22*time.Hour)
	if got := writers(t, a); len(got.All) != 1 || got.All[0].Node != "a" {
		t.Fatalf("known are %+v", got.All)
	}
}
