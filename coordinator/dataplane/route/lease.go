package route

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/setting"
)

// The lease of the routes (SPEC 8).
const (
	// DefaultLease is how long a process may route without a confirmation of its table.
	DefaultLease = 10 * time.Minute
	// MinLease is the shortest lease. A confirmation takes up to half of it.
	MinLease = 2 * time.Second
	// EngineLease is the lease if the backend chooses the addresses. It is short because the backend may give a freed
	// address to another container immediately. With this lease, an outage of the database interrupts people.
	EngineLease = 10 * time.Second
	// maxMargin is how much longer than the lease an address stays unused; if the lease is shorter than maxMargin, the
	// margin is as long as the lease. The statement that frees an address must be committed within the margin. The
	// database's clock must not be set forward by more than the margin.
	maxMargin = time.Minute
)

// Errors of [Table.MayDial].
var (
	// ErrUnconfirmed: the lease of the routes has expired.
	ErrUnconfirmed = errors.New("the route is not confirmed at the moment")
	// ErrEnded: the workspace no longer runs there.
	ErrEnded = errors.New("the route has ended")
)

// CheckLease refuses a lease that is too short.
func CheckLease(d time.Duration) error {
	if d < MinLease {
		return setting.Errorf("route_lease", "must be %s or more, such as %s, not %s", MinLease, DefaultLease, d)
	}
	return nil
}

// quarantineOf returns how long a freed address stays unused if routes have that lease.
func quarantineOf(lease time.Duration) time.Duration { return lease + min(lease, maxMargin) }

// lease records how long, and until when, the table's routes may be used.
type lease struct {
	// stale is true once a timer has noticed that the lease has expired. A process that was stopped or suspended notices later:
	// see [Table.Confirmed].
	stale atomic.Bool
	// distrusted says that the addresses belong to another engine.
	distrusted atomic.Bool

	mu     sync.Mutex // guards the fields below
	length time.Duration
	// former is an earlier, longer lease. Until formerUntil, some process may still have used it for its routes.
	former      time.Duration
	formerUntil clock.Moment
	at          clock.Moment  // when the table was last known to be correct; zero for never
	timer       *time.Timer   // sets stale
	again       chan struct{} // closed when the table is confirmed again
	missed      func()        // requests a confirmation
}

// init makes it an expired lease.
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

// confirm records that the table was correct at that moment.
func (l *lease) confirm(at clock.Moment) {
	l.mu.Lock()
	if l.at.Before(at) {
		l.at = at
	}
	l.mu.Unlock()
	l.check()
}

// check determines whether the lease has expired, and acts on a change.
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

// SetLease changes how long routes may be used without a confirmation. It also applies to the routes in use.
func (t *Table) SetLease(d time.Duration) { t.lease.set(d) }

// Quarantine returns how long an address stays unused after its route was withdrawn. That is longer than any process
// can keep the route. If the lease was shortened, the former lease counts until all other processes have certainly
// adopted the new one.
func (t *Table) Quarantine() time.Duration {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	return quarantineOf(max(t.lease.length, t.lease.quarantineFormer()))
}

// Poll returns how often the table must be confirmed.
func (t *Table) Poll(atMost time.Duration) time.Duration {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	return min(atMost, t.lease.length/4)
}

// Distrust tells the table whether the container backend is known to be a different one from the backend that the
// routes lead to. If it is, the routes are not used.
func (t *Table) Distrust(another bool) {
	t.lease.distrusted.Store(another)
	t.lease.check()
}

// Confirmed tells the table that it has received every change that was committed after since and before at. The feed
// calls it.
func (t *Table) Confirmed(since, at clock.Moment) {
	t.mu.RLock()
	filled := t.filled
	t.mu.RUnlock()
	switch {
	case filled.IsZero(): // the table is being filled, which will confirm it
	case filled.Before(since):
		t.refill() // changes committed between the two may have been missed
	default:
		t.lease.confirm(at)
	}
}

// Fresh reports whether routes may be used. It is a single load from memory. It may be wrong just after a stopped or
// suspended process continues. Therefore every new connection is also checked with [Table.MayDial].
func (t *Table) Fresh() bool { return !t.lease.stale.Load() }

// FreshAgain returns a channel that is closed when routes may be used again. If they may be used now, it is already closed.
func (t *Table) FreshAgain() <-chan struct{} {
	t.lease.mu.Lock()
	defer t.lease.mu.Unlock()
	if t.lease.stale.Load() {
		return t.lease.again
	}
	return closed
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// MayDial returns nil if a connection that was just made to the run's address (see [AddressOf]) leads to the run's
// container, because that address cannot have been given to another container yet. It must be called after the
// connection was made.
func (t *Table) MayDial(run string) error {
	l := &t.lease
	l.mu.Lock()
	at, length := l.at, l.length
	l.mu.Unlock()
	// Read the lease first and the run second: a run that had ended by the confirmed moment is then certainly not live
	// any more.
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
