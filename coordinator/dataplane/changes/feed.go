// Package changes tells the other parts of a process which workspaces have changed: the route table, the event streams
// and, in the leader, the publisher. Each process has one [Feed], which reads the changes from PostgreSQL itself (SPEC
// 4, DESIGN 3).
//
// A notification is a hint: the feed reads the row that it names, so an update takes one query. Nothing depends on
// hints, however. At an interval, and whenever hints may have been lost, the feed rereads all rows with a revision
// above its floor. It then finds the changes that it missed, and recognises those that it has already passed on.
//
// # Why the floor lags
//
// A statement takes its revision before its transaction commits, so revision 7 may appear after revision 8 was read.
// Therefore the floor lags by [Options.Window]: it is the revision that was the newest one that long ago. Every
// revision up to the floor has been committed, or never will be. For updates that is certain, however long a
// transaction takes: a transaction that updates a row locks it first, and so gets its id before its first revision. A
// revision that the feed has read settles only when all transactions that had an id at that time have ended. An insert
// takes the revision of its new row slightly before the transaction gets its id; the window covers that.
//
// # What is confirmed
//
// After each complete reading the feed reports a period in which it cannot have missed anything ([Feed.OnConfirmed]).
// Routes are leased on that basis: once everything committed before some moment has been passed on, the routes were
// correct at that moment.
//
// The package decides when the database is read, and knows which changes have been passed on. It must not keep rows, or
// decide what a change means.
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
	"github.com/codehub/gateway/coordinator/internal/periodic"
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
	// maxHints is how many hints may wait. With more, rereading everything above the floor is cheaper.
	maxHints = 10_000
	// behind is how far below the last revision a new feed begins to read. Transactions that are in progress at that
	// time may have taken some of these revisions.
	behind = 500
	// queryTimeout bounds one query.
	queryTimeout = 10 * time.Second
	// The first and the longest pause after a failed query, ±25 %.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Source is the part of the database that the feed reads. [*store.Store] implements it.
type Source interface {
	// Position returns the database's current position.
	Position(ctx context.Context) (store.Position, error)
	// ChangesSince returns at most limit rows above the revision, lowest first.
	ChangesSince(ctx context.Context, revision int64, limit int) ([]store.Route, error)
	// Routes returns the rows of ids; missing rows are left out.
	Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error)
}

// Subscriber receives the changes. The feed calls it from one goroutine and waits for it: it must not block.
type Subscriber interface {
	// Changed passes on changed rows. If a workspace changes twice, the feed may pass on only the later change. In rare
	// cases it passes on the same row twice. All changes up to the revision settled have now been passed on, to this
	// subscriber and to all others. rows may be empty if only settled is new.
	Changed(rows []store.Route, settled int64)
	// Reset tells the subscriber that the database is no longer the one that earlier calls were about: another server
	// has taken over, or a backup was restored. Rows that were passed on may contain changes that never happened, and a
	// lower revision may be the newer one. Changed continues from the revision settled.
	Reset(settled int64)
}

// Options configure a [Feed]. Zero values take the defaults.
type Options struct {
	// Poll is the time between two readings without any hint. Default: [DefaultPoll].
	Poll time.Duration
	// Window is the longest time between a transaction's taking of a revision and its commit. Default: [DefaultWindow].
	Window time.Duration
}

// Feed reads changes and passes them on. Its methods are safe for concurrent use.
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
	newPoll     chan struct{} // the interval has changed

	// The fields below belong to Run's goroutine.

	hints []workspace.ID // rows to read
	again bool           // everything above the floor must be read
	scan  *scan          // the reading of everything above the floor, while in progress

	// position is the newest known position. Its revision may come from a row that was read. A database whose position
	// is behind it is a different database.
	position store.Position
	floor    int64        // everything up to it has been passed on
	marks    []mark       // the last revisions at earlier times; candidates for the floor
	since    clock.Moment // nothing committed later was missed; zero while that is uncertain
	// passed holds the revision of each row above the floor that was passed on. It is bounded by the number of workspaces that
	// change within the window.
	passed map[workspace.ID]int64
}

// mark records the last revision at a time.
type mark struct {
	at       time.Time
	revision int64
	// next is the id of a transaction that began to write after at; 0 while there is none. It began later than all
	// transactions that have taken this or a lower revision.
	next uint64
}

// settled reports whether all transactions that have taken this or a lower revision had ended when the scan began.
func (m mark) settled(s *scan) bool { return m.next != 0 && m.next <= s.position.Oldest }

// scan is a reading of everything above the floor, page by page.
type scan struct {
	began       time.Time
	moment      clock.Moment // began, on the monotonic clock
	position    store.Position
	next, until int64 // revisions: read above next, at least up to until
}

// New returns a feed that reads from source. It does no I/O.
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

// OnConfirmed registers a function that Run's goroutine calls when everything committed after since and before at has
// been passed on. It is called only when that is certain. After each Reset, since is a later moment. It must not be
// called after Run.
func (f *Feed) OnConfirmed(confirmed func(since, at clock.Moment)) { f.confirmed = confirmed }

// OnPassed registers a function that Run's goroutine calls when everything committed by the transactions before
// [store.Position.Oldest] has been passed on. It must not be called after Run.
func (f *Feed) OnPassed(passed func(store.Position)) { f.passedOn = passed }

// Refresh makes the feed reread the rows soon, because they may have changed. It does not wait.
func (f *Feed) Refresh(ids ...workspace.ID) { f.queue.Add(ids...) }

// RefreshAll makes the feed look for every change that it may have missed, because notifications may have been lost. It does not
// wait.
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

// Run reads changes and passes them on until ctx ends, and returns nil. It makes all queries of the feed, one after the
// other. After a failure it continues when the database answers again.
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
			if !periodic.Pause(ctx, retry.NextBackOff()) {
				return nil
			}
		}
	}
}

// work reads until nothing is left to read. Rows named by a hint come first, because people wait for them. After an error it is
// called again, and continues.
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

// take moves the queued hints to the current work. Everything read from now on is at least as new as these hints.
func (f *Feed) take() {
	batch := f.queue.Take()
	f.hints = append(f.hints, batch.Keys...)
	f.again = f.again || batch.All
	if len(f.hints) > maxHints {
		f.hints, f.again = nil, true
	}
}

// readHinted reads one page of the rows that hints name. Such rows are passed on regardless of the order in which they were
// committed.
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
		f.hints = nil // free the array
	}
	f.pass(rows)
	return nil
}

// readPage reads one page above the floor. If a scan was requested, it begins one, but only after the scan in progress
// has ended. The scan in progress does not replace the requested one: it may already have passed the row that the
// request is about.
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
	// Revisions above until were committed after the scan began. They cause hints of their own, and if a hint is lost,
	// the next scan finds them. Following them could take forever.
	if last := len(rows) < pageSize; last || f.scan.next >= f.scan.until {
		f.finish(last)
	}
	return nil
}

// begin begins a scan. It reads the position first: every revision up to it is taken, and therefore settled one window later.
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

// finish ends a scan. Everything that was committed before the scan began has now been passed on, or is above the
// revision at which the scan ended. Therefore the floor moves to the newest mark that, when the scan began, was settled
// and at least a window old. A scan that has read everything also confirms that nothing was missed.
func (f *Feed) finish(everything bool) {
	settled := f.floor
	old := 0
	// The first floor was a guess, but the first mark is certain: every change up to it is in the database now, and
	// every change above it has been read.
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

// tell calls every subscriber.
func (f *Feed) tell(rows []store.Route) {
	for _, s := range f.subscribers {
		err := guard.Call(guard.Task, func() error { s.Changed(rows, f.floor); return nil })
		if err == nil {
			continue
		}
		f.log.Error("applying changes panicked; they are applied one by one", zap.Error(err), guard.Stack(err))
		for i := range rows { // if a row comes twice, the second time changes nothing
			if err := guard.Call(guard.Workspace, func() error { s.Changed(rows[i:i+1], f.floor); return nil }); err != nil {
				f.log.Error("a change was not applied", zap.String(logkey.Workspace, string(rows[i].ID)), zap.Error(err),
					guard.Stack(err))
			}
		}
	}
}
