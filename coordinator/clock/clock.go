// Package clock tells the time that decides, and how long ago something was.
//
// A time that is written, or compared with one that was written, is the database's (SPEC 12.13). It
// comes from now() in the statement itself, or from a [Database]. How long ago something was in
// this process is a [Moment], which counts the time in which the process could not run. Or it is
// the difference of two readings of its monotonic clock. Neither means anything in another process.
// Whether two times of an engine are the same, and what lies between them, is asked of these two
// alone. After a fail-over the new server's clock counts, from the next measurement on. The servers
// of one database are to have the same time, because now() in its statements follows the new one at
// once.
package clock

import (
	"sync/atomic"
	"time"
)

// Moment is a point in time of this process. The zero value is before all others.
type Moment struct {
	// at has the wall clock's and the monotonic clock's reading.
	at time.Time
	// boot is a clock that goes on while the machine is suspended; 0 where there is none.
	boot time.Duration
}

// Now returns the present moment.
func Now() Moment { return Moment{time.Now(), sinceBoot()} }

// IsZero reports whether m is the zero value.
func (m Moment) IsZero() bool { return m.at.IsZero() }

// Before reports whether m is before other.
func (m Moment) Before(other Moment) bool { return m.at.Before(other.at) }

// Elapsed returns how long ago m was, by the clock that says the longest. The monotonic clock
// stands still while the machine is suspended, and the wall clock may be set back. A paused
// virtual machine learns of its pause from the wall clock alone.
func (m Moment) Elapsed() time.Duration {
	now := Now()
	return max(now.at.Sub(m.at), now.at.Round(0).Sub(m.at.Round(0)), now.boot-m.boot)
}

// steady returns how long ago m was by the clocks that cannot be set.
func (m Moment) steady() time.Duration {
	return Now().since(m)
}

// since is how much later m is than other, by the clocks that cannot be set.
func (m Moment) since(other Moment) time.Duration { return max(m.at.Sub(other.at), m.boot-other.boot) }

// Steady returns a clock that begins with the wall clock's time and is never set: what it
// says later is of use for differences only. The pause of a virtual machine is missing
// from these, and that of the machine for up to 10 ms after it has ended.
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

// steadyStep is how long the monotonic clock may go on from one reading of both clocks. Reading the
// one that goes on while the machine is suspended is a system call.
const steadyStep = 10 * time.Millisecond
