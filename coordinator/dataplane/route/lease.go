package route

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
)

// The lease of the routes (SPEC 8).
const (
	// DefaultLease is how long a process routes without a confirmation of its table.
	DefaultLease = 10 * time.Minute
	// MinLease is the shortest. A confirmation takes up to half of it.
	MinLease = 2 * time.Second
	// EngineLease is the lease where the backend chooses the addresses, and may give one to
	// another container at once. An outage of the database interrupts people there.
	EngineLease = 10 * time.Second
	// maxMargin is how much longer than the lease addresses rest, unless the lease itself
	// is shorter. In that time the statement that frees an address must be committed, and
	// the clock of the database must not be set forward by more.
	maxMargin = time.Minute
)

// Errors of [Table.MayDial].
var (
	// ErrUnconfirmed: the lease of the routes has run out.
	ErrUnconfirmed = errors.New("the route is not confirmed at the moment")
	// ErrEnded: the workspace does not run there any more.
	ErrEnded = errors.New("the route has ended")
)

// CheckLease refuses a lease that is too short.
func CheckLease(d time.Duration) error {
	if d < MinLease {
		return fmt.Errorf("route_lease: must be %s or more, such as %s, not %s", MinLease, DefaultLease, d)
	}
	return nil
}

// quarantineOf is how long an address rests when routes have that lease.
func quarantineOf(lease time.Duration) time.Duration { return lease + min(lease, maxMargin) }

// lease is for how long the table's routes may be used, and until when.
type lease struct {
	// stale is true when the lease has run out, as a timer has found. A process that was
	// stopped or suspended finds out later than that: see [Table.confirmed].
	stale atomic.Bool
	// distrusted says that the addresses are those of another engine.
	distrusted atomic.Bool

	mu     sync.Mutex // guards what follows
	length time.Duration
	// former is a longer length that other routes may have been given out under, until
	// then.
	former      time.Duration
	formerUntil clock.Moment
	at          clock.Moment  // the table was right then; zero for never
	timer       *time.Timer   // sets stale
	again       chan struct{} // closed when the table is confirmed again
	missed      func()        // asks for a confirmation
}

// init makes it a lease that has run out.
func (l *lease) init(missed func()) {
	l.length, l.again, l.missed = DefaultLease, make(chan struct{}), missed
	l.stale.Store(true)
	l.timer = time.AfterFunc(time.Hour, func() { guard.Run("checking the lease of the routes", l.check) })
	l.timer.Stop()
}

// set changes the length.
func (l *lease) set(d time.Duration) {
	l.mu.Lock()
	if d < l.length {
		l.former, l.formerUntil = max(l.length, l.quarantineFormer()), clock.Now()
	}
	l.length = d
	l.mu.Unlock()
	l.check()
}

// quarantineFormer returns the former length while it matters; mu is held.
func (l *lease) quarantineFormer() time.Duration {
	if l.former == 0 || l.formerUntil.Elapsed() > quarantineOf(l.former) {
		return 0
	}
	return l.former
}

// confirm records that the table was right at that moment.
func (l *lease) confirm(at clock.Moment) {
	l.mu.Lock()
	if l.at.Before(at) {
		l.at = at
	}
	l.mu.Unlock()
	l.check()
}

// check finds out whether the lease has run out, and acts on the change.
func (l *lease) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := time.Duration(-1)
	if !l.at.IsZero() && !l.distrusted.Load() {
		left = l.length - l.at.Elapsed()
	}
	if left < 0 {
		l.timer.Stop()
		if !l.stale.Swap(true) {
			l.missed()
		}
		return
	}
	l.timer.Reset(left + time.Millisecond)
	if l.stale.Swap(false) {
		close(l.again)
		l.again = make(chan struct{})
	}
}

// SetLease changes how long routes may be used without a confirmation. It applies to the
// routes in use as well.
func (t *Table) SetLease(d time.Duration) { t.lease.set(d) }

// Quarantine is how long an address rests after a route to it was taken back: longer than
// any process can hold it. After the lease was made shorter, the longer one counts until
// other processes have it as well, at the latest.
func (t *Table) Quarantine() time.Duration {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	return quarantineOf(max(t.lease.length, t.lease.quarantineFormer()))
}

// Poll is how often the table has to be confirmed.
func (t *Table) Poll(atMost time.Duration) time.Duration {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	return min(atMost, t.lease.length/4)
}

// Distrust says whether the container backend is known to be another one than the one
// that the routes are about. Then they are not used.
func (t *Table) Distrust(another bool) {
	t.lease.distrusted.Store(another)
	t.lease.check()
}

// Confirmed says that every change was taken over that was committed after since and
// before at. It is called by the feed.
func (t *Table) Confirmed(since, at clock.Moment) {
	t.mu.RLock()
	filled := t.filled
	t.mu.RUnlock()
	switch {
	case filled.IsZero(): // it is being filled, and will be confirmed by that
	case filled.Before(since):
		t.refill() // what was committed between the two may have been missed
	default:
		t.lease.confirm(at)
	}
}

// Fresh reports whether routes may be used. It is one load from memory. In the first
// moments after the process was stopped or suspended it may be wrong: connections are
// therefore made with [Table.MayDial] only.
func (t *Table) Fresh() bool { return !t.lease.stale.Load() }

// FreshAgain returns a channel that is closed when routes may be used again; it is closed
// already if they may be used now.
func (t *Table) FreshAgain() <-chan struct{} {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	if t.lease.stale.Load() {
		return t.lease.again
	}
	return closed
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// MayDial returns nil when a connection that was just made to the address of that run leads to
// the container of the run. [AddressOf] returns the address, which cannot have been given to
// another container yet. So it must be asked after the connection was made.
func (t *Table) MayDial(run string) error {
	l := &t.lease
	l.mu.Lock()
	at, length := l.at, l.length
	l.mu.Unlock()
	// In this order: a run that had ended by the confirmed moment is not there any more.
	live := t.runs.has(run)
	switch {
	case at.IsZero() || l.distrusted.Load() || at.Elapsed() > length:
		l.check()
		return ErrUnconfirmed
	case !live:
		return ErrEnded
	}
	return nil
}
