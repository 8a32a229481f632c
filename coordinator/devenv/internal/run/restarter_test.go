package run

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pretended is a server that ends when told to.
type pretended struct{ ended, stopped bool }

func (p *pretended) Exited() bool { return p.ended }

func (p *pretended) Stop() error { p.stopped = true; return nil }

func mustStart(t *testing.T, r *restarter, name string, do func() (process, error)) {
	t.Helper()
	if _, err := start(r, name, do); err != nil {
		t.Fatal(err)
	}
}

// Only ends within one minute count together.
func TestThirdEndWithinAMinuteIsTheLast(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		ends  int // that are survived
	}{
		{29 * time.Second, 2}, // the third comes 58 s after the first
		{30 * time.Second, 9}, // 60 s after
	} {
		synctest.Test(t, func(t *testing.T) {
			r := &restarter{dir: "/data", printf: func(string, ...any) {}}
			var running *pretended
			other := &pretended{}
			mustStart(t, r, "Redis", func() (process, error) { running = &pretended{}; return running, nil })
			mustStart(t, r, "S3", func() (process, error) { return other, nil })
			for n := 1; n <= 9; n++ {
				running.ended = true
				err := r.check()
				if (err == nil) != (n <= c.ends) {
					t.Fatalf("every %v: end %d: %v", c.pause, n, err)
				}
				if err != nil {
					if got := err.Error(); got != "Redis ended by itself; see its log in /data" {
						t.Errorf("the error is %q", got)
					}
					break
				}
				r.settle()
				time.Sleep(c.pause)
			}
			r.stop()
			if !running.stopped || !other.stopped {
				t.Error("a server is left running")
			}
		})
	}
}

// A server that cannot be started again ends the run, and says why.
func TestServerThatCannotBeStartedAgain(t *testing.T) {
	r := &restarter{dir: "/data", printf: func(string, ...any) {}}
	cause := errors.New("the disk is full")
	starts := 0
	mustStart(t, r, "PostgreSQL", func() (process, error) {
		if starts++; starts > 1 {
			return nil, cause
		}
		return &pretended{ended: true}, nil
	})
	if err := r.check(); err != nil {
		t.Fatalf("before it was tried: %v", err)
	}
	r.settle()
	if err := r.check(); !errors.Is(err, cause) ||
		!strings.HasPrefix(err.Error(), "PostgreSQL ended by itself; see its log in /data") {
		t.Errorf("got %v", err)
	}
	r.stop()
}

// While a server is being started again, the run continues. check does not wait and does not start the server a second
// time. stop returns only after the start has ended.
func TestRestartBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &restarter{dir: "/data", printf: func(string, ...any) {}}
		starts, again := 0, &pretended{}
		mustStart(t, r, "PostgreSQL", func() (process, error) {
			if starts++; starts == 1 {
				return &pretended{ended: true}, nil
			}
			time.Sleep(10 * time.Second) // crash recovery
			return again, nil
		})
		for range 5 {
			if err := r.check(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		r.stop()
		if starts != 2 || !again.stopped {
			t.Errorf("started %d times, and stopped: %v; want twice, and stopped", starts, again.stopped)
		}
	})
}

// The announcement contains no secret, but it does contain the path of the file for commands.
func TestAnnouncement(t *testing.T) {
	var out strings.Builder
	r := newRunner("", "", settings{port: 8080, database: "postgres://own:secret@db/codehub"}, state{}, &out)
	r.databaseURL = r.settings.database
	r.announce(time.Second)
	if got := out.String(); strings.Contains(got, "secret") || !strings.Contains(got, "http://localhost:8080\n") ||
		!strings.Contains(got, " . .codehub/environment; ./caddy codehub user add NAME\n") {
		t.Errorf("printed %q", got)
	}
}
