// Package route keeps in memory where every workspace is, whose it is, and
// whether it can take requests, so that reaching a running one touches neither
// PostgreSQL nor Redis (SPEC 8, DESIGN 1).
//
// The table is filled at start, follows notifications, and is compared with the
// database now and then: a notification is a hint that may be lost.
package route

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultResync is the time between two comparisons of the whole table with the
// database.
const DefaultResync = 30 * time.Second

// The pause after a failed query, at first and at most, and the time one query
// may take.
const (
	retryMin     = 100 * time.Millisecond
	retryMax     = 5 * time.Second
	queryTimeout = 10 * time.Second
)

// ErrUnknown says that there is no such workspace.
var ErrUnknown = errors.New("no such workspace")

// Source is where the rows come from: the store.
type Source interface {
	// Routes returns the rows of the given workspaces, without those that do not
	// exist; without ids, of all that are not DELETED.
	Routes(ctx context.Context, ids ...workspace.ID) ([]store.Route, error)
}

// Table is the route table of one process. Its methods are safe for concurrent
// use.
type Table struct {
	source Source
	log    *zap.Logger
	resync time.Duration

	mu      sync.RWMutex
	entries map[workspace.ID]*Entry

	loaded    atomic.Bool
	loadedC   chan struct{}
	pendingMu sync.Mutex
	pending   map[workspace.ID]struct{}
	all       bool
	wake      chan struct{}
}

// New returns an empty table that is filled from source. Resync zero or less
// means [DefaultResync]. It performs no I/O.
func New(source Source, resync time.Duration, log *zap.Logger) *Table {
	if resync <= 0 {
		resync = DefaultResync
	}
	return &Table{
		source:  source,
		log:     log,
		resync:  resync,
		entries: make(map[workspace.ID]*Entry),
		loadedC: make(chan struct{}),
		pending: make(map[workspace.ID]struct{}),
		wake:    make(chan struct{}, 1),
	}
}

// Lookup returns the workspace's entry. It allocates nothing.
func (t *Table) Lookup(id workspace.ID) (*Entry, bool) {
	t.mu.RLock()
	e, ok := t.entries[id]
	t.mu.RUnlock()
	return e, ok
}

// Len returns how many workspaces the table holds.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.entries)
}

// Ready reports whether the table has been filled. Before that, an unknown
// workspace may only be one that was not read yet.
func (t *Table) Ready() bool { return t.loaded.Load() }

// Loaded is closed once the table has been filled.
func (t *Table) Loaded() <-chan struct{} { return t.loadedC }

// Wait returns the workspace's row as soon as good accepts it. It returns
// [ErrUnknown] when there is no such workspace, or no longer, and ctx's error
// when that ends first.
func (t *Table) Wait(ctx context.Context, id workspace.ID, good func(store.Route) bool) (store.Route, error) {
	e, ok := t.Lookup(id)
	if !ok {
		return store.Route{}, ErrUnknown
	}
	for {
		s := e.State()
		if !s.Exists() {
			return store.Route{}, ErrUnknown
		}
		if good(s.Route) {
			return s.Route, nil
		}
		select {
		case <-ctx.Done():
			return store.Route{}, ctx.Err()
		case <-s.Changed():
		}
	}
}

// Notify makes the table read the workspace that n is about again, soon.
// Notifications of other things are ignored.
func (t *Table) Notify(n store.Notification) {
	if n.WorkspaceID != "" {
		t.Refresh(n.WorkspaceID)
	}
}

// Refresh makes the table read the workspace again, soon.
func (t *Table) Refresh(id workspace.ID) {
	t.pendingMu.Lock()
	t.pending[id] = struct{}{}
	t.pendingMu.Unlock()
	t.signal()
}

// Resync makes the table read everything again, soon: notifications may have been
// lost while the listening connection was away.
func (t *Table) Resync() {
	t.pendingMu.Lock()
	t.all = true
	t.pendingMu.Unlock()
	t.signal()
}

func (t *Table) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Run fills the table and keeps it up to date until ctx ends. Queries that fail
// are repeated; the table keeps what it has meanwhile.
//
// All queries are made here, one after the other: an older answer can never take
// the place of a newer one.
func (t *Table) Run(ctx context.Context) {
	t.Resync()
	timer := time.NewTimer(t.resync)
	defer timer.Stop()
	pause := retryMin
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			t.Resync()
			timer.Reset(t.resync)
		case <-t.wake:
			err := t.refresh(ctx)
			switch {
			case err != nil && ctx.Err() != nil:
				return
			case err != nil:
				if !failing {
					t.log.Error("refreshing the route table failed; it keeps what it has, and tries again", zap.Error(err))
				}
				failing = true
				if !sleep(ctx, pause) {
					return
				}
				pause = min(2*pause, retryMax)
				t.signal()
			case failing:
				failing, pause = false, retryMin
				t.log.Info("the route table is up to date again")
			}
		}
	}
}

// refresh reads what was asked for. What could not be read is asked for again.
func (t *Table) refresh(ctx context.Context) error {
	t.pendingMu.Lock()
	pending, all := t.pending, t.all
	t.pending, t.all = make(map[workspace.ID]struct{}), false
	t.pendingMu.Unlock()
	if len(pending) == 0 && !all {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err := t.read(ctx, pending, all)
	if err != nil {
		t.pendingMu.Lock()
		for id := range pending {
			t.pending[id] = struct{}{}
		}
		t.all = t.all || all
		t.pendingMu.Unlock()
	}
	return err
}

func (t *Table) read(ctx context.Context, pending map[workspace.ID]struct{}, all bool) error {
	var ids []workspace.ID
	if !all {
		ids = make([]workspace.ID, 0, len(pending))
		for id := range pending {
			ids = append(ids, id)
		}
	}
	rows, err := t.source.Routes(ctx, ids...)
	if err != nil {
		return fmt.Errorf("reading routes: %w", err)
	}
	found := make(map[workspace.ID]struct{}, len(rows))
	for _, r := range rows {
		found[r.ID] = struct{}{}
		t.put(r)
	}
	if !all {
		for _, id := range ids {
			if _, ok := found[id]; !ok {
				t.remove(id)
			}
		}
		return nil
	}
	for _, id := range t.missing(found) {
		t.remove(id)
	}
	if !t.loaded.Swap(true) {
		close(t.loadedC)
	}
	return nil
}

func (t *Table) put(r store.Route) {
	t.mu.RLock()
	e := t.entries[r.ID]
	t.mu.RUnlock()
	if e != nil {
		e.update(r)
		return
	}
	t.mu.Lock()
	t.entries[r.ID] = newEntry(r)
	t.mu.Unlock()
}

func (t *Table) remove(id workspace.ID) {
	t.mu.Lock()
	e := t.entries[id]
	delete(t.entries, id)
	t.mu.Unlock()
	if e != nil {
		e.end()
	}
}

func (t *Table) missing(found map[workspace.ID]struct{}) []workspace.ID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var ids []workspace.ID
	for id := range t.entries {
		if _, ok := found[id]; !ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// sleep waits for d, and reports whether ctx still goes on.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
