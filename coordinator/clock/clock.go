// Package clock provides the authoritative time, and measures how long ago something was.
//
// A time that is written, or compared with a written one, is the database's (SPEC 12.13). It comes from now() in the
// statement itself, or from a [Database]. How long ago something happened in this process is measured in one of two
// ways: with a [Moment], which includes the time in which the process could not run, or by the difference of two
// readings of the monotonic clock. Both have a meaning only within the process. An engine's times are only compared
// with each other. After a failover of PostgreSQL, the new server's clock counts from the next measurement on. In
// statements, however, now() uses the new server's clock immediately, so the servers of one database should have the
// same time.
package clock

import (
	"sync/atomic"
	"time"
)

// Moment is a point in time of this process. The zero value is before all others.
type Moment struct {
	// at contains the readings of the wall clock and the monotonic clock.
	at time.Time
	// boot is a clock that continues while the machine is suspended; 0 if there is none.
	boot time.Duration
}

// Now returns the current moment.
func Now() Moment { return Moment{time.Now(), sinceBoot()} }

// IsZero reports whether m is the zero value.
func (m Moment) IsZero() bool { return m.at.IsZero() }

// Before reports whether m is before other.
func (m Moment) Before(other Moment) bool { return m.at.Before(other.at) }

// Elapsed returns how long ago m was: the longest time that any clock shows. The monotonic clock stands still while the
// machine is suspended, and the wall clock may be set back. A paused virtual machine learns about its pause only from
// the wall clock.
func (m Moment) Elapsed() time.Duration {
	now := Now()
	return max(now.at.Sub(m.at), now.at.Round(0).Sub(m.at.Round(0)), now.boot-m.boot)
}

// steady returns how long ago m was by the clocks that cannot be set.
func (m Moment) steady() time.Duration {
	return Now().since(m)
}

// since returns how much later m is than other, by the clocks that cannot be set.
func (m Moment) since(other Moment) time.Duration { return max(m.at.Sub(other.at), m.boot-other.boot) }

// Steady returns a clock that begins with the wall clock's time but is never set. Its readings are useful only for
// differences. They do not include the pauses of a virtual machine. They include the time during which the machine was
// suspended, but may show it up to 10 ms late.
func Steady() func() time.Time {
	began := Now()
	var last atomic.Pointer[Moment]
	last.Store(&began)
	return func() time.Time {
		m := last.Load()
		passed := time.Since(m.at)
		if passed >= steadyStep {
			now := Now()
			last.Store(&now)
			m, passed = &now, 0
		}
		return began.at.Round(0).Add(m.since(began) + passed)
	}
}

// steadyStep is how long only the monotonic clock is read after a reading of both clocks. The other clock, which
// continues during a suspension, is read rarely because each reading is a system call.
const steadyStep = 10 * time.Millisecond
