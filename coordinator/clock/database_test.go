package clock

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// server is a server with its own clock.
type server struct {
	now   time.Time
	err   error
	asked int
}

func (s *server) Now(context.Context) (time.Time, error) {
	s.asked++
	return s.now, s.err
}

// TestDatabase: the time is the server's, regardless of this machine's clock and its changes. A difference is
// logged once, and so is its end.
func TestDatabase(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	s := &server{now: time.Now().Add(-5 * time.Hour)}
	d := NewDatabase(s, zap.New(core))
	for i, c := range []struct {
		ahead  time.Duration // this machine's clock
		logged int           // in total
	}{{0, 0}, {-35 * time.Minute, 1}, {3 * time.Hour, 1}, {0, 2}} {
		d.wall = func() time.Time { return s.now.Add(c.ahead) }
		d.at = Moment{} // as after measuredFor
		if err := d.Measure(t.Context()); err != nil {
			t.Fatal(err)
		}
		if e := d.Now().Sub(s.now); e < -time.Microsecond || e > time.Minute {
			t.Errorf("%s ahead: %s from the server's time", c.ahead, e)
		}
		if logs.Len() != c.logged {
			t.Errorf("step %d: %d lines, want %d: %v", i, logs.Len(), c.logged, logs.All())
		}
	}
	s.asked = 0
	if err := d.Measure(t.Context()); err != nil || s.asked != 0 {
		t.Errorf("asked %d times at once: %v", s.asked, err)
	}
	// The wall clock is set: the time does not follow it, and is requested again.
	d.at.at = d.at.at.Round(0).Add(-time.Hour)
	s.err = errors.New("no answer")
	if err := d.Measure(t.Context()); err == nil || s.asked != 1 {
		t.Errorf("after a jump asked %d times: %v", s.asked, err)
	}
}

// TestSteady: a clock that is set does not count.
func TestSteady(t *testing.T) {
	m := Now()
	m.at = m.at.Add(-time.Hour) // both readings: an hour has passed
	if e := m.steady(); e < time.Hour || e > time.Hour+time.Minute {
		t.Errorf("%s, want an hour", e)
	}
}

// TestSkew: a difference between the clocks does not count if the time that the answer took to arrive can explain it.
func TestSkew(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for theirs, want := range map[int]time.Duration{7: -3 * time.Second, 10: 0, 15: 0, 20: 0, 24: 4 * time.Second} {
		if d := Skew(at(10), at(theirs), at(20)); d != want {
			t.Errorf("%d: %s, want %s", theirs, d, want)
		}
	}
}
