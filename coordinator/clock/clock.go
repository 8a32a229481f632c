// Package clock measures how long ago something was, counting the time in which the
// process could not run: while it was stopped, or its machine suspended.
//
// It owns no state. It must not be used for what is written or shown: moments mean
// nothing in another process.
package clock

import "time"

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

// Elapsed returns how long ago m was, by the clock that says the longest: the monotonic
// clock stands still while the machine is suspended, the wall clock may be set back, and
// a paused virtual machine learns of its pause from the wall clock alone.
func (m Moment) Elapsed() time.Duration {
	now := Now()
	return max(now.at.Sub(m.at), now.at.Round(0).Sub(m.at.Round(0)), now.boot-m.boot)
}
