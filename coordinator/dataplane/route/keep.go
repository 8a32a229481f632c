package route

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// compareBatch is how many rows are compared at every tick. It bounds the cost of the comparison, however many
	// workspaces there are.
	compareBatch = 100
	// loadBatch is how many rows a query reads when the table is filled.
	loadBatch = 500
	// idleTicks is how many ticks (ten minutes) a sleeping workspace stays in the table after its last request.
	idleTicks = 60
	// graceTicks is for how many ticks (one minute in all) a sleeping workspace stays in the table even if the table is
	// full. By then the request has either begun to hold the entry or no longer needs it.
	graceTicks = 6
	// The first and the longest pause after a failed filling, ±25 %.
	retryMin = 100 * time.Millisecond
	retryMax = 5 * time.Second
)

// Run fills the table and keeps it up to date until ctx ends. It repeats failed queries; until one succeeds, the table keeps its
// entries.
func (t *Table) Run(ctx context.Context) {
	var reader sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer reader.Wait()
	defer cancel() // first: the reader must end even after a panic here
	reader.Go(func() {
		_ = guard.Keep(ctx, t.log, "route reader", 0, func(ctx context.Context) error { t.read(ctx); return nil })
	})
	t.fill(ctx)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var c comparison
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.reload:
			t.fill(ctx)
			c = comparison{}
		case <-ticker.C:
			t.age()
			t.outage.Report(ctx, t.compare(ctx, &c))
		}
	}
}

// fill reads all workspaces that are awake or in the table, and retries until that succeeds.
func (t *Table) fill(ctx context.Context) {
	retry := backoff.ExponentialBackOff{
		InitialInterval: retryMin, MaxInterval: retryMax, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for ctx.Err() == nil {
		err := t.fillOnce(ctx)
		t.outage.Report(ctx, err)
		if err == nil {
			break
		}
		periodic.Pause(ctx, retry.NextBackOff())
	}
	if ctx.Err() == nil && !t.loaded.Swap(true) {
		close(t.loadedC)
	}
}

// fillOnce reads the workspaces that are awake, and then the rest of those in the table. The table is then correct as of the
// beginning.
func (t *Table) fillOnce(ctx context.Context) error {
	c := comparison{size: loadBatch}
	began := clock.Now()
	t.mu.RLock()
	generation := t.generation
	t.mu.RUnlock()
	for {
		if _, err := t.step(ctx, &c); err != nil {
			return err
		}
		if c.done {
			break
		}
	}
	t.mu.Lock()
	same := generation == t.generation
	if same {
		t.filled = began
	}
	t.mu.Unlock()
	if same { // otherwise it is filled again
		t.lease.confirm(began)
	}
	return nil
}

// comparison is one round of comparing the table with the database: first the database's awake workspaces, page by page, then the
// table's entries.
type comparison struct {
	size  int
	after workspace.ID   // the last id of the pages so far
	paged bool           // all pages are read
	held  []workspace.ID // still to be compared
	done  bool
}

// compare makes one step of a round. It reports the changes that it finds to the feed, because the feed's other
// subscribers have missed them, too.
func (t *Table) compare(ctx context.Context, c *comparison) error {
	if c.size == 0 || c.done {
		*c = comparison{size: compareBatch}
	}
	found, err := t.step(ctx, c)
	if len(found) > 0 {
		t.options.Feed.Refresh(found...)
	}
	return err
}

// step makes one query and puts its rows into the table. It returns the workspaces of which the table did not have the
// newest row.
func (t *Table) step(ctx context.Context, c *comparison) (news []workspace.ID, err error) {
	t.mu.RLock()
	generation := t.generation
	t.mu.RUnlock()
	var ids []workspace.ID
	var rows []store.Route
	if c.paged {
		ids = c.held[:min(len(c.held), c.size)]
		if len(ids) == 0 {
			c.done = true
			return nil, nil
		}
		rows, err = t.query(ctx, ids)
	} else {
		rows, err = t.page(ctx, c.after, c.size)
	}
	if err != nil {
		return nil, err
	}
	if c.paged {
		c.held = c.held[len(ids):]
		c.done = len(c.held) == 0
	} else if len(rows) > 0 {
		c.after = rows[len(rows)-1].ID
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if generation != t.generation {
		return nil, nil // everything will be reread anyway
	}
	for _, r := range rows {
		if t.put(r, generation) {
			news = append(news, r.ID)
		}
	}
	if !c.paged && len(rows) < c.size {
		c.paged, c.held = true, slices.Collect(maps.Keys(t.entries))
		c.done = len(c.held) == 0
	}
	for _, id := range without(ids, rows) {
		t.remove(id)
	}
	return news, nil
}

// page reads one page of awake workspaces, for at most queryTimeout.
func (t *Table) page(ctx context.Context, after workspace.ID, size int) ([]store.Route, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := t.source.AwakeRoutes(ctx, after, size)
	if err != nil {
		return nil, fmt.Errorf("reading routes: %w", err)
	}
	return rows, nil
}

// without returns the ids that have no row.
func without(ids []workspace.ID, rows []store.Route) []workspace.ID {
	found := make(map[workspace.ID]struct{}, len(rows))
	for _, r := range rows {
		found[r.ID] = struct{}{}
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id workspace.ID) bool { _, ok := found[id]; return ok })
}

// age advances the clock, and forgets entries that were not requested for a long time.
func (t *Table) age() {
	now := t.clock.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.missing.rotate()
	for id, e := range t.entries {
		if e.evictable(now - idleTicks) {
			t.forget(id)
		}
	}
}

// evictable reports whether the table may drop the entry: the workspace sleeps, the entry is not held, and it was last requested
// at the given time or earlier.
func (e *Entry) evictable(used int64) bool {
	return e.used.Load() <= used && e.pins.Load() == 0 && !e.State().Awake()
}

// makeRoom drops the least recently requested tenth of the sleeping workspaces, and reports whether there is room now. If
// everything is in use, it looks again at the next tick. t.mu is held.
func (t *Table) makeRoom() bool {
	now := t.clock.Load()
	if t.full == now {
		return false
	}
	type candidate struct {
		id   workspace.ID
		used int64
	}
	var list []candidate
	for id, e := range t.entries {
		if e.evictable(now - graceTicks) {
			list = append(list, candidate{id, e.used.Load()})
		}
	}
	if len(list) == 0 {
		t.full = now
		return false
	}
	slices.SortFunc(list, func(a, b candidate) int { return cmp.Compare(a.used, b.used) })
	for _, c := range list[:min(len(list), t.options.MaxAsleep/10+1)] {
		t.forget(c.id)
	}
	return true
}
