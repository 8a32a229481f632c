// Package route keeps in memory where workspaces are, who owns them, and whether they can take
// requests. So reaching a running one touches neither PostgreSQL nor Redis (SPEC 8, DESIGN 1).
//
// The table holds what is awake, and for some time what was asked for. A workspace that sleeps
// and is not asked for costs nothing here. The first request for it reads one row. The table is
// filled at the start and follows the process's feed of changes (package changes). It compares
// itself with the database a few rows at a time.
//
// Routes are leased. The table knows when it was last right as a whole, and says for how long its
// addresses may be used since then. An address must rest for so long before another workspace
// gets it (SPEC 8).
//
// It owns the copy in memory and nothing else. It must not write to the database,
// decide about a request, or wake a workspace.
package route

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Errors of [Table.Find].
var (
	// ErrNotFound: the workspace does not exist, or its owner has deleted it.
	ErrNotFound = errors.New("no such workspace")
	// ErrBusy: too many workspaces are asked for at the moment. It says nothing about the
	// workspace.
	ErrBusy = errors.New("too many workspaces are being looked up")
)

// Source is the database as the table reads it. [*store.Store] implements it.
type Source interface {
	// Routes returns the rows of ids, without those that do not exist.
	Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error)
	// AwakeRoutes returns at most limit rows that follow the given id, in the order of the
	// ids: all that are awake, and possibly some others.
	AwakeRoutes(ctx context.Context, after workspace.ID, limit int) ([]store.Route, error)
}

// DefaultMaxAsleep is the default of [Options.MaxAsleep].
const DefaultMaxAsleep = 10_000

// Options configure a [Table]. Zero values take the defaults.
type Options struct {
	// MaxAsleep is how many workspaces that are not awake the table holds at most.
	// Default: [DefaultMaxAsleep].
	MaxAsleep int
	// Feed is where the changes come from. Without one, the table compares only.
	Feed Feed
}

// Feed is what passes changes on to this table and to others. Its methods do not block.
// [*changes.Feed] implements it.
type Feed interface {
	// Refresh makes it read those workspaces: the comparison has found changes that were not
	// passed on.
	Refresh(ids ...workspace.ID)
	// RefreshAll makes it look for all changes: the lease of the routes has run out.
	RefreshAll()
}

// noFeed passes nothing on.
type noFeed struct{}

func (noFeed) Refresh(...workspace.ID) {}
func (noFeed) RefreshAll()             {}

// Table is the route table of one process. Its methods are safe for concurrent use.
type Table struct {
	source  Source
	options Options
	outage  *outage.Reporter
	log     *zap.Logger

	// clock counts the ticks of Run, from 1. It tells how long ago something was used
	// without asking for the time with every request.
	clock   atomic.Int64
	loaded  atomic.Bool
	loadedC chan struct{}
	reload  chan struct{} // everything is to be read again

	mu      sync.RWMutex // guards what follows; Lookup only reads
	entries map[workspace.ID]*Entry
	asleep  int // how many of them are not awake
	// generation counts the databases, as [Table.Reset] tells. Revisions of different
	// ones cannot be compared.
	generation uint64
	// filled is when the last filling from this database began, zero while there is none.
	filled  clock.Moment
	full    int64 // the clock when no entry could make room for another
	missing recent
	reading

	runs  runs
	lease lease
}

// New returns an empty table that is filled from source. It performs no I/O.
func New(source Source, options Options, log *zap.Logger) *Table {
	options.MaxAsleep = cmp.Or(options.MaxAsleep, DefaultMaxAsleep)
	if options.Feed == nil {
		options.Feed = noFeed{}
	}
	t := &Table{
		source: source, options: options, log: log,
		outage: outage.New(log, zap.ErrorLevel,
			"reading routes failed; running workspaces are served, the others are answered with 503 until it succeeds",
			"routes can be read again"),
		loadedC: make(chan struct{}),
		reload:  make(chan struct{}, 1),
		entries: make(map[workspace.ID]*Entry),
		reading: newReading(),
	}
	t.lease.init(options.Feed.RefreshAll)
	t.clock.Store(1)
	return t
}

// Lookup returns the workspace's entry if it is in memory, as that of every running
// workspace is. It allocates nothing.
func (t *Table) Lookup(id workspace.ID) (*Entry, bool) {
	t.mu.RLock()
	e, ok := t.entries[id]
	if ok {
		e.touch()
	}
	t.mu.RUnlock()
	return e, ok
}

// Len returns how many workspaces the table has.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

// Ready reports whether the table has been filled. Before that, no request should be
// decided: each would cost a query of its own.
func (t *Table) Ready() bool { return t.loaded.Load() }

// Loaded is closed once the table has been filled.
func (t *Table) Loaded() <-chan struct{} { return t.loadedC }

// Changed takes over rows that have changed. It is called by the feed.
func (t *Table) Changed(rows []store.Route, _ int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		t.missing.remove(r.ID)
		t.overtake(r)
		t.put(r, t.generation)
	}
}

// Reset makes the table read everything again, because the database is another or an
// older one: see [changes.Subscriber]. It keeps its entries until it can.
func (t *Table) Reset(int64) {
	t.mu.Lock()
	t.generation++
	t.filled = clock.Moment{}
	t.missing = recent{}
	t.mu.Unlock()
	t.refill()
}

// refill makes the table read everything again. It does not wait for it.
func (t *Table) refill() {
	select {
	case t.reload <- struct{}{}:
	default:
	}
}

// put updates the entry of a workspace with a row that was read in the given generation. It adds
// an entry if the workspace is awake. It reports whether the row brought anything new. t.mu is
// held.
func (t *Table) put(r store.Route, generation uint64) bool {
	e := t.entries[r.ID]
	if e == nil {
		fresh := newEntry(r, generation, t)
		if generation != t.generation || !fresh.State().Awake() {
			t.runs.end(fresh.State().run)
			return false
		}
		t.entries[r.ID] = fresh
		return true
	}
	was := e.State().Awake()
	if !e.update(r, generation) {
		return false
	}
	switch now := e.State(); {
	case was && !now.Awake():
		t.asleep++
	case !was && now.Awake():
		t.asleep--
	}
	switch now := e.State(); {
	case !now.Exists():
		t.forget(r.ID) // those who wait have seen the state
	case !now.Awake() && e.used.Load() == 0 && e.holds.Load() == 0:
		t.forget(r.ID) // the entry is not held, and will not be soon
	}
	return true
}

// remove removes the entry of a workspace without a row, and tells those who wait for
// it. t.mu is held.
func (t *Table) remove(id workspace.ID) {
	if e := t.entries[id]; e != nil {
		t.forget(id)
		e.end()
	}
}

// forget removes an entry as it is; t.mu is held.
func (t *Table) forget(id workspace.ID) {
	last := t.entries[id].State()
	if !last.Awake() {
		t.asleep--
	}
	t.runs.end(last.run)
	delete(t.entries, id)
}

// recent is a bounded set of workspaces that were found missing a moment ago. It forgets
// by halves, so that neither its size nor its age needs a list. Its methods are called
// with the table's mutex held.
type recent struct{ now, before map[workspace.ID]struct{} }

// recentHalf is the size of each half.
const recentHalf = 5000

func (r *recent) add(id workspace.ID) {
	if r.now == nil || len(r.now) >= recentHalf {
		r.rotate()
	}
	r.now[id] = struct{}{}
}

func (r *recent) remove(id workspace.ID) {
	delete(r.now, id)
	delete(r.before, id)
}

func (r *recent) has(id workspace.ID) bool {
	_, now := r.now[id]
	_, before := r.before[id]
	return now || before
}

// rotate forgets the older half.
func (r *recent) rotate() { r.now, r.before = make(map[workspace.ID]struct{}), r.now }

// tick is how often the table's clock advances. Entries and missing workspaces age by it.
const tick = 10 * time.Second
