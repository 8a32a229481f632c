package route

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// maxFlights is how many workspaces may be waiting to be read. Requests beyond that are refused: they come from a client that
	// guesses ids.
	maxFlights = 1000
	// readBatch is how many flights one query reads.
	readBatch = 100
	// findTimeout is how long a request waits for its row.
	findTimeout = 5 * time.Second
	// queryTimeout bounds one query.
	queryTimeout = 10 * time.Second
)

// flight is the reading of one workspace's row. All requests that need the row while it is being read share the flight.
type flight struct {
	done chan struct{} // closed when entry and err are set
	// asked says that a request waits for the row: the table then keeps the workspace even if it sleeps.
	asked bool
	// started says that the query is running. again says that the row may have changed since the query began, so that
	// it must be read again.
	started, again bool
	// newest is the newest row that the feed has passed on meanwhile.
	newest *store.Route

	entry *Entry
	err   error
}

// reading is what the table must read. The table's mutex guards it.
type reading struct {
	flights map[workspace.ID]*flight
	waiting []workspace.ID // flights that have not started
	wake    chan struct{}
}

func newReading() reading {
	return reading{flights: make(map[workspace.ID]*flight), wake: make(chan struct{}, 1)}
}

// Find returns the workspace's entry, from memory or else from the database. It returns [ErrNotFound] if the workspace does not
// exist; any other error says nothing about the workspace.
//
// All rows requested at the same time share one query, and there is one query at a time. A client that guesses ids occupies one
// connection, not the pool.
func (t *Table) Find(ctx context.Context, id workspace.ID) (*Entry, error) {
	if e, ok := t.Lookup(id); ok {
		return e, nil
	}
	t.mu.Lock()
	if t.missing.has(id) {
		t.mu.Unlock()
		return nil, ErrNotFound
	}
	f := t.lookup(id)
	if f == nil {
		t.mu.Unlock()
		return nil, ErrBusy
	}
	f.asked = true
	t.mu.Unlock()

	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	select {
	case <-f.done:
		return f.entry, f.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the row of workspace %s: %w", id, ctx.Err())
	}
}

// Refresh makes the table read the workspace's row now, without a notification. It does not wait.
func (t *Table) Refresh(id workspace.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.lookup(id); f != nil && f.started {
		f.again = true
	}
}

// lookup returns the current flight of a workspace, or a new one. It returns nil if too many are waiting. t.mu is held.
func (t *Table) lookup(id workspace.ID) *flight {
	f := t.flights[id]
	if f != nil {
		return f
	}
	if len(t.flights) >= maxFlights {
		return nil
	}
	f = &flight{done: make(chan struct{})}
	t.flights[id] = f
	t.waiting = append(t.waiting, id)
	t.signal()
	return f
}

// signal wakes the reader.
func (t *Table) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// overtake hands a row from the feed to the workspace's flight, because the row that the running query returns may be
// older. t.mu is held.
func (t *Table) overtake(r store.Route) {
	if f := t.flights[r.ID]; f != nil && f.started && (f.newest == nil || f.newest.Revision < r.Revision) {
		f.newest = &r
	}
}

// read reads requested rows until ctx ends; then it ends every flight.
func (t *Table) read(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			t.mu.Lock()
			defer t.mu.Unlock()
			for id, f := range t.flights {
				t.finish(id, f, nil, fmt.Errorf("reading a route: %w", ctx.Err()))
			}
			return
		case <-t.wake:
		}
		for t.readBatch(ctx) {
		}
	}
}

// readBatch makes one query, and reports whether there was anything to read.
func (t *Table) readBatch(ctx context.Context) bool {
	t.mu.Lock()
	generation := t.generation
	ids := t.waiting[:min(len(t.waiting), readBatch)]
	t.waiting = t.waiting[len(ids):]
	for _, id := range ids {
		f := t.flights[id]
		f.started, f.again, f.newest = true, false, nil
	}
	t.mu.Unlock()
	if len(ids) == 0 || ctx.Err() != nil {
		return false
	}
	rows, err := t.query(ctx, ids)
	t.outage.Report(ctx, err, zap.Int(logkey.Workspaces, len(ids)))
	byID := make(map[workspace.ID]*store.Route, len(rows))
	for i := range rows {
		byID[rows[i].ID] = &rows[i]
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		f := t.flights[id]
		if err == nil && (f.again || generation != t.generation) {
			f.started = false
			t.waiting = append(t.waiting, id)
			continue
		}
		t.finish(id, f, byID[id], err)
	}
	return true
}

// query reads rows, for at most queryTimeout.
func (t *Table) query(ctx context.Context, ids []workspace.ID) ([]store.Route, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := t.source.Routes(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	return rows, nil
}

// finish ends a flight with the row that was read (nil for none) or with an error. t.mu is held.
func (t *Table) finish(id workspace.ID, f *flight, r *store.Route, err error) {
	delete(t.flights, id)
	defer close(f.done)
	if err != nil {
		f.err = err
		return
	}
	if f.newest != nil && (r == nil || f.newest.Revision > r.Revision) {
		r = f.newest
	}
	if r == nil {
		t.remove(id)
	} else {
		t.put(*r, t.generation)
	}
	if r == nil || !(&State{Route: *r}).Exists() {
		if f.asked {
			t.missing.add(id)
		}
		f.err = ErrNotFound
		return
	}
	if f.asked {
		f.entry, f.err = t.keep(*r)
	}
}

// keep returns the entry of a requested workspace, and adds it if the workspace sleeps. t.mu is held.
func (t *Table) keep(r store.Route) (*Entry, error) {
	e := t.entries[r.ID]
	if e == nil {
		if t.asleep >= t.options.MaxAsleep && !t.makeRoom() {
			return nil, ErrBusy
		}
		e = newEntry(r, t.generation, t)
		t.entries[r.ID] = e
		t.asleep++
	}
	e.touch()
	return e, nil
}
