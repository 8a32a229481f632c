// Package route keeps in memory where workspaces are, who owns them, and whether they can accept requests. So reaching a running
// workspace involves neither PostgreSQL nor Redis (SPEC 8, DESIGN 1).
//
// The table holds the workspaces that are awake and, for some time, those that were requested. A sleeping workspace without
// requests costs nothing here. The first request for it reads one row. The table is filled at the start and follows the process's
// feed of changes (package changes). In addition, it compares itself with the database, a few rows at a time.
//
// Routes are leased. The table knows when it was last completely correct, and how long its addresses may be used after that. An
// address must rest for that long before another workspace gets it (SPEC 8).
//
// The package owns the copy in memory and nothing else. It must not write to the database, decide about a request, or wake a
// workspace.
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
	// ErrBusy: too many workspaces are being requested at the moment. It says nothing about the workspace.
	ErrBusy = errors.New("too many workspaces are being looked up")
)

// Source is the part of the database that the table reads. [*store.Store] implements it.
type Source interface {
	// Routes returns the rows of ids; missing rows are left out.
	Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error)
	// AwakeRoutes returns at most limit rows after the given id, ordered by id: all awake workspaces, and possibly some others.
	AwakeRoutes(ctx context.Context, after workspace.ID, limit int) ([]store.Route, error)
}

// DefaultMaxAsleep is the default of [Options.MaxAsleep].
const DefaultMaxAsleep = 10_000

// Options configure a [Table]. Zero values take the defaults.
type Options struct {
	// MaxAsleep bounds the number of workspaces in the table that are not awake. Default: [DefaultMaxAsleep].
	MaxAsleep int
	// Feed is the source of the changes. Without one, the table only compares.
	Feed Feed
}

// Feed passes changes on to this table and to others. Its methods do not block. [*changes.Feed] implements it.
type Feed interface {
	// Refresh makes the feed read those workspaces. The table calls it when its comparison has found changes that the
	// feed had not passed on.
	Refresh(ids ...workspace.ID)
	// RefreshAll makes the feed look for all changes. The table calls it when the lease of its routes has expired.
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

	// clock counts the ticks of Run, from 1. It tells how long ago an entry was used, without any request having to
	// read the time.
	clock   atomic.Int64
	loaded  atomic.Bool
	loadedC chan struct{}
	reload  chan struct{} // everything must be reread

	mu      sync.RWMutex // guards the fields below; Lookup only reads
	entries map[workspace.ID]*Entry
	asleep  int // how many entries are not awake
	// generation counts the databases: [Table.Reset] increments it. Revisions of different databases cannot be compared.
	generation uint64
	// filled is when the last filling from this database began, or zero before that.
	filled  clock.Moment
	full    int64 // the clock when no entry could make room for another
	missing recent
	reading

	runs  runs
	lease lease
}

// New returns an empty table that is filled from source. It does no I/O.
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

// Lookup returns the workspace's entry if it is in memory, which is certain for a running workspace. It does not allocate.
func (t *Table) Lookup(id workspace.ID) (*Entry, bool) {
	t.mu.RLock()
	e, ok := t.entries[id]
	if ok {
		e.touch()
	}
	t.mu.RUnlock()
	return e, ok
}

// Len returns how many workspaces are in the table.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

// Ready reports whether the table has been filled. Before that, requests should wait: each would cost its own query.
func (t *Table) Ready() bool { return t.loaded.Load() }

// Loaded is closed once the table has been filled.
func (t *Table) Loaded() <-chan struct{} { return t.loadedC }

// Changed takes over changed rows. The feed calls it.
func (t *Table) Changed(rows []store.Route, _ int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range rows {
		t.missing.remove(r.ID)
		t.overtake(r)
		t.put(r, t.generation)
	}
}

// Reset makes the table reread everything, because the database is a different or older one: see [changes.Subscriber]. The table
// keeps its entries until then.
func (t *Table) Reset(int64) {
	t.mu.Lock()
	t.generation++
	t.filled = clock.Moment{}
	t.missing = recent{}
	t.mu.Unlock()
	t.refill()
}

// refill makes the table reread everything. It does not wait.
func (t *Table) refill() {
	select {
	case t.reload <- struct{}{}:
	default:
	}
}

// put updates the entry of a workspace with a row that was read in the given generation. It adds an entry if the workspace is
// awake. It reports whether the row contained anything new. t.mu is held.
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
		t.forget(r.ID) // everything that waits has seen the state
	case !now.Awake() && e.used.Load() == 0 && e.pins.Load() == 0:
		t.forget(r.ID) // nothing holds the entry or is about to
	}
	return true
}

// remove removes the entry of a workspace without a row, and tells everything that waits for it. t.mu is held.
func (t *Table) remove(id workspace.ID) {
	if e := t.entries[id]; e != nil {
		t.forget(id)
		e.end()
	}
}

// forget removes an entry without changing its state; t.mu is held.
func (t *Table) forget(id workspace.ID) {
	last := t.entries[id].State()
	if !last.Awake() {
		t.asleep--
	}
	t.runs.end(last.run)
	delete(t.entries, id)
}

// recent is a bounded set of workspaces that were recently found missing. It consists of two halves, and forgets the
// whole older half at once. Therefore it needs no list to limit its size or the age of its members. Its methods are
// called with the table's mutex held.
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
