// Package changes tells the parts of a process which workspaces have changed: the route
// table, the event streams and, in the leading process, the publisher. Each process has
// one [Feed], which reads the changes from PostgreSQL itself (SPEC 4, DESIGN 3).
//
// A notification is a hint: the feed reads the row that it names, and so an update takes
// one query. Nothing depends on hints, however. At an interval, and whenever some may
// have been lost, the feed reads again what has a higher revision than its floor. A
// change that was missed is found then, and one that was not is recognised and not
// passed on twice.
//
// # Why the floor lags
//
// A statement takes its revision before its transaction commits, so revision 7 may appear after
// revision 8 was read. The floor is therefore a revision that was the last one a [Options.Window]
// ago. What is at or below it has been committed, or never will be. That is certain for updates,
// however long a transaction takes: it gets its id before its first revision, because it locks
// the row first. A revision settles only when all transactions that had an id by then have ended.
// The new row of an insert takes its revision a moment before; the window is for that.
//
// # What is confirmed
//
// After each complete reading the feed says since when nothing can have been missed
// ([Feed.OnConfirmed]). Routes are leased on that. Once all that was committed before some moment
// has been passed on, the routes were right at that moment.
//
// The package owns when the database is asked and what has been passed on. It must not
// keep rows, or decide what a change means.
package changes

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/workqueue"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options].
const (
	DefaultPoll   = 15 * time.Second
	DefaultWindow = time.Minute
)

const (
	// pageSize is how many rows one query reads.
	pageSize = 500
	// maxHints is how many hints may wait. With more, reading everything above the floor
	// costs less.
	maxHints = 10_000
	// behind is how far below the last revision a feed begins: the transactions that are
	// in progress when it starts have taken some of these.
	behind = 500
	// queryTimeout bounds one query.
	queryTimeout = 10 * time.Second
	// The pause after a failed query, at first and at most, ±25 %.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Source is the database as the feed reads it. [*store.Store] implements it.
type Source interface {
	// Position returns how far the database is.
	Position(ctx context.Context) (store.Position, error)
	// ChangesSince returns at most limit rows above the revision, the lowest first.
	ChangesSince(ctx context.Context, revision int64, limit int) ([]store.Route, error)
	// Routes returns the rows of ids, without those that do not exist.
	Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error)
}

// Subscriber gets the changes. The feed calls it from one goroutine, which waits for it:
// it must not block.
type Subscriber interface {
	// Changed passes on rows that have changed. Of two changes of one workspace, the later one
	// may come alone, and in rare cases a row comes twice. All changes up to the revision settled
	// have been passed on by now, to this subscriber and to all others. There may be no rows at
	// all when only that is new.
	Changed(rows []store.Route, settled int64)
	// Reset says that the database is no longer the one of the calls before: another
	// server has taken over, or a backup was restored. Rows that were passed on may hold
	// what never happened, and a lower revision may be the newer one. Changed goes on
	// from the revision settled.
	Reset(settled int64)
}

// Options configure a [Feed]. Zero values take the defaults.
type Options struct {
	// Poll is the time between two readings without any hint. Default: [DefaultPoll].
	Poll time.Duration
	// Window is how late a transaction may commit after it has taken its revision.
	// Default: [DefaultWindow].
	Window time.Duration
}

// Feed reads what changes and passes it on. Its methods are safe for concurrent use.
type Feed struct {
	source      Source
	subscribers []Subscriber
	confirmed   func(since, at clock.Moment)
	passedOn    func(store.Position)
	outage      *outage.Reporter
	log         *zap.Logger
	options     Options
	queue       *workqueue.Queue[workspace.ID]
	interval    atomic.Int64  // between two readings without any hint
	newPoll     chan struct{} // it has changed

	// What follows belongs to Run's goroutine.

	hints []workspace.ID // rows to read
	again bool           // everything above the floor is to be read
	scan  *scan          // the reading of everything above the floor, while in progress

	// position is the newest that is known, be it from a row. A database that is behind it
	// is another one.
	position store.Position
	floor    int64        // everything at or below it has been passed on
	marks    []mark       // the last revisions at earlier times; candidates for the floor
	since    clock.Moment // nothing committed later is missed; zero while that is not certain
	// passed holds the revision of each row above the floor that was passed on. It is
	// bounded by the number of workspaces that change within the window.
	passed map[workspace.ID]int64
}

// mark says which revision was the last one at a time.
type mark struct {
	at       time.Time
	revision int64
	// next is the id of a transaction that began to write after that; 0 while there is none. So
	// it began later than all that have taken the revision or a lower one.
	next uint64
}

// settled reports whether all transactions that have taken the revision, or a lower one,
// have ended before the scan began.
func (m mark) settled(s *scan) bool { return m.next != 0 && m.next <= s.position.Oldest }

// scan is a reading of everything above the floor, page by page.
type scan struct {
	began       time.Time
	moment      clock.Moment // the same
	position    store.Position
	next, until int64 // revisions: read above next, up to until at least
}

// New returns a feed that reads from source. It performs no I/O.
func New(source Source, options Options, log *zap.Logger) *Feed {
	options.Poll = cmp.Or(options.Poll, DefaultPoll)
	options.Window = cmp.Or(options.Window, DefaultWindow)
	f := &Feed{
		source: source, options: options, log: log, confirmed: func(since, at clock.Moment) {},
		passedOn: func(store.Position) {},
		outage: outage.New(log, zap.ErrorLevel,
			"reading what has changed failed; gateways and pages show the last known state until it succeeds",
			"what has changed can be read again"),
		queue:  workqueue.New[workspace.ID](),
		passed: make(map[workspace.ID]int64),

		newPoll: make(chan struct{}, 1),
	}
	f.SetPoll(options.Poll)
	return f
}

// Subscribe adds subscribers. It must not be called after Run.
func (f *Feed) Subscribe(s ...Subscriber) { f.subscribers = append(f.subscribers, s...) }

// OnConfirmed has f called, from Run's goroutine, when everything has been passed on that was
// committed after since and before at. It is not called before that is certain, and since is a
// later moment after each Reset. It must not be called after Run.
func (f *Feed) OnConfirmed(confirmed func(since, at clock.Moment)) { f.confirmed = confirmed }

// OnPassed has f called, from Run's goroutine, when everything has been passed on that was committed by
// the transactions before [store.Position.Oldest]. It must not be called after Run.
func (f *Feed) OnPassed(passed func(store.Position)) { f.passedOn = passed }

// Refresh makes the feed read the rows soon: something says that they have changed. It
// does not wait for it.
func (f *Feed) Refresh(ids ...workspace.ID) { f.queue.Add(ids...) }

// RefreshAll makes the feed look for every change that it may have missed, because
// notifications may have been lost. It does not wait for it.
func (f *Feed) RefreshAll() { f.queue.AddAll() }

// SetPoll changes [Options.Poll].
func (f *Feed) SetPoll(d time.Duration) {
	if f.interval.Swap(int64(d)) == int64(d) {
		return
	}
	select {
	case f.newPoll <- struct{}{}:
	default:
	}
}

func (f *Feed) poll() time.Duration { return time.Duration(f.interval.Load()) }

// Run reads and passes on until ctx ends, and returns nil. All queries of the feed are
// made here, one after the other. What could not be read is read when the database
// answers again.
func (f *Feed) Run(ctx context.Context) error {
	f.RefreshAll()
	poll := time.NewTimer(f.poll())
	defer poll.Stop()
	retry := backoff.ExponentialBackOff{
		InitialInterval: retryMin, MaxInterval: retryMax, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			poll.Reset(f.poll())
			f.RefreshAll()
			continue
		case <-f.newPoll:
			poll.Reset(f.poll())
			continue
		case <-f.queue.Ready():
		}
		for {
			err := f.work(ctx)
			f.outage.Report(ctx, err)
			if err == nil {
				retry.Reset()
				break
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(retry.NextBackOff()):
			}
		}
	}
}

// work reads until nothing is left to read. Rows that a hint names come first: people
// wait for them. After an error it is called again, and continues.
func (f *Feed) work(ctx context.Context) error {
	for {
		f.take()
		if len(f.hints) == 0 && f.scan == nil && !f.again {
			return nil
		}
		if err := f.readHinted(ctx); err != nil {
			return err
		}
		if err := f.readPage(ctx); err != nil {
			return err
		}
	}
}

// take moves what is queued to the work in hand. Everything that the database is asked
// for from now on is at least as new as the hints.
func (f *Feed) take() {
	batch := f.queue.Take()
	f.hints = append(f.hints, batch.Keys...)
	f.again = f.again || batch.All
	if len(f.hints) > maxHints {
		f.hints, f.again = nil, true
	}
}

// readHinted reads one page of the rows that hints name. Such a row is passed on in
// whatever order it was committed.
func (f *Feed) readHinted(ctx context.Context) error {
	if len(f.hints) == 0 {
		return nil
	}
	ids := f.hints[:min(len(f.hints), pageSize)]
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := f.source.Routes(ctx, ids)
	if err != nil {
		return fmt.Errorf("reading %d workspaces: %w", len(ids), err)
	}
	f.hints = f.hints[len(ids):]
	if len(f.hints) == 0 {
		f.hints = nil // gives the array back
	}
	f.pass(rows)
	return nil
}

// readPage reads one page of what is above the floor. It begins a new scan if one was
// asked for and none is in progress: what was asked for during one may be behind it.
func (f *Feed) readPage(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if f.scan == nil {
		if !f.again {
			return nil
		}
		if err := f.begin(ctx); err != nil {
			return err
		}
	}
	rows, err := f.source.ChangesSince(ctx, f.scan.next, pageSize)
	if err != nil {
		return fmt.Errorf("reading the changes since revision %d: %w", f.scan.next, err)
	}
	if len(rows) > 0 {
		f.scan.next = rows[len(rows)-1].Revision
	}
	f.pass(rows)
	// What is above until has been committed since, so it has its own hint; the next scan
	// finds it otherwise. Following it could last for ever.
	if last := len(rows) < pageSize; last || f.scan.next >= f.scan.until {
		f.finish(last)
	}
	return nil
}

// begin begins a scan. The position is read first: every revision up to it is taken, and
// so settled one window later.
func (f *Feed) begin(ctx context.Context) error {
	now, moment := time.Now(), clock.Now()
	p, err := f.source.Position(ctx)
	if err != nil {
		return err
	}
	first := f.position.Timeline == ""
	if p.Timeline != f.position.Timeline || p.Revision < f.position.Revision {
		f.floor = max(0, p.Revision-behind)
		f.marks, f.since = nil, clock.Moment{}
		clear(f.passed)
		if !first {
			for _, s := range f.subscribers {
				s.Reset(f.floor)
			}
		}
	}
	f.position = p
	f.again = false
	f.scan = &scan{began: now, moment: moment, position: p, next: f.floor, until: p.Revision}
	for i := range f.marks {
		f.marks[i].next = cmp.Or(f.marks[i].next, p.Next)
	}
	return nil
}

// finish ends a scan: everything that was committed before it began has been passed on,
// or is above where it ended. So the newest mark that was settled and a window old at
// that time becomes the floor. A scan that has read everything confirms.
func (f *Feed) finish(everything bool) {
	settled := f.floor
	old := 0
	// The first floor was a guess. The first mark is not: what is at or below it is in the
	// database now, and the rest was read.
	if f.since.IsZero() && len(f.marks) > 0 && f.marks[0].settled(f.scan) {
		f.since = f.scan.moment
	}
	if everything && !f.since.IsZero() {
		defer f.confirmed(f.since, f.scan.moment)
		defer f.passedOn(f.scan.position)
	}
	for old < len(f.marks) && f.marks[old].settled(f.scan) && f.scan.began.Sub(f.marks[old].at) >= f.options.Window {
		settled = f.marks[old].revision
		old++
	}
	f.marks = f.marks[old:]
	if last := len(f.marks) - 1; last < 0 || f.marks[last].revision < f.scan.until {
		f.marks = append(f.marks, mark{at: f.scan.began, revision: f.scan.until})
	}
	f.scan = nil
	if settled <= f.floor {
		return
	}
	f.floor = settled
	for id, revision := range f.passed {
		if revision <= f.floor {
			delete(f.passed, id)
		}
	}
	f.tell(nil)
}

// pass passes on the rows that were not passed on before.
func (f *Feed) pass(rows []store.Route) {
	fresh := rows[:0]
	for _, r := range rows {
		f.position.Revision = max(f.position.Revision, r.Revision)
		if f.passed[r.ID] >= r.Revision {
			continue
		}
		if r.Revision > f.floor {
			f.passed[r.ID] = r.Revision
		}
		fresh = append(fresh, r)
	}
	if len(fresh) > 0 {
		f.tell(fresh)
	}
}

// tell tells every subscriber.
func (f *Feed) tell(rows []store.Route) {
	for _, s := range f.subscribers {
		err := guard.Call(guard.Task, func() error { s.Changed(rows, f.floor); return nil })
		if err == nil {
			continue
		}
		f.log.Error("taking over changes panicked; they are passed on one by one", zap.Error(err), guard.Stack(err))
		for i := range rows { // of one row twice, the second one changes nothing
			if err := guard.Call(guard.Workspace, func() error { s.Changed(rows[i:i+1], f.floor); return nil }); err != nil {
				f.log.Error("a change is not taken over", zap.String(logkey.Workspace, string(rows[i].ID)), zap.Error(err),
					guard.Stack(err))
			}
		}
	}
}
