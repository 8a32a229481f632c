package reconcile

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/probe"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sense"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

const (
	// sweepPage is how many workspaces one step of a sweep looks at.
	sweepPage = 500
	// sweepTimeout bounds one step.
	sweepTimeout = 2 * time.Minute
	// sweepArchives is how many archives one step asks the object store for.
	sweepArchives = 25
	// firstSteps is the time between the steps of the first sweep, of which nobody knows
	// how many there are.
	firstSteps = time.Second
)

// sweep looks at the workspaces that ticks leave out, one page after the other, spread
// over the sweep interval. It runs beside the loop and decides nothing: whatever looks
// changed is observed again by the loop. So a slow sweep delays nobody.
func (l *loop) sweep(ctx context.Context) {
	reading := outage.New(l.log, zap.ErrorLevel, "cannot sweep workspaces in STANDBY; losses there are noticed late", "sweeping workspaces works again")
	var after workspace.ID
	steps, before := 0, 0 // pages of this sweep, and of the one before
	looked := false
	for ctx.Err() == nil {
		if !looked {
			looked = l.inspectLeftovers(ctx)
		}
		rows, err := l.store.SweepPage(ctx, l.term.Shard, l.term.Shards, after, sweepPage)
		reading.Report(ctx, err)
		if err == nil {
			l.inspect(ctx, rows)
			steps, after = steps+1, ""
			if len(rows) == sweepPage {
				after = rows[len(rows)-1].ID
			} else {
				steps, before = 0, steps
			}
		}
		pause := min(firstSteps, l.settings.Load().SweepInterval)
		if before > 0 {
			pause = l.settings.Load().SweepInterval / time.Duration(before)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// inspectLeftovers hints the archived workspaces that have a volume, and reports whether
// it could look. The leader before may have ended between the save that has made one ARCHIVED,
// after which no tick and no page has it, and the removal of what a restore has left. Within a
// term what follows a save is carried out: once in a term is enough.
func (l *loop) inspectLeftovers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	volumes, err := l.backend.Volumes(ctx)
	if err != nil {
		return false // the loop logs outages
	}
	for ids := range slices.Chunk(slices.Collect(maps.Keys(volumes)), sweepPage) {
		rows, err := l.store.Workspaces(ctx, ids)
		if err != nil {
			return false
		}
		for _, w := range rows {
			if w.Phase == workspace.PhaseArchived && w.Operation == workspace.OpNone {
				l.Hint(w.ID)
			}
		}
	}
	return true
}

// inspect hints the workspaces of a page that are not as their rows say. An object store
// that is away must not keep it from the volumes, so that is asked last.
func (l *loop) inspect(ctx context.Context, rows []workspace.Workspace) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var homes, archives []workspace.Workspace
	for _, w := range rows {
		switch {
		case !w.AwaitsGC:
			homes = append(homes, w)
		case !w.Deleted():
			l.queue.Add(w.ID) // its deletion was undone
		default:
			archives = append(archives, w)
		}
	}
	l.inspectHomes(ctx, homes)
	l.inspectArchives(ctx, archives)
}

// inspectHomes hints the workspaces whose volume, container or jobs changed.
func (l *loop) inspectHomes(ctx context.Context, rows []workspace.Workspace) {
	if len(rows) == 0 {
		return
	}
	ids := make([]workspace.ID, len(rows))
	for i, w := range rows {
		ids[i] = w.ID
	}
	snap := l.sense(ctx, ctx, sense.NewOutages(zap.NewNop()), ids) // the loop logs outages
	if snap.Unseen != 0 || l.clock.Measure(ctx) != nil {
		return
	}
	policy := l.policy()
	policy.NewOpID = func() string { return "" } // nothing is begun
	for _, w := range rows {
		if d := planner.Reconcile(l.clock.Now(), w, snap.Of(w.ID), true, policy); d.Changed || len(snap.Jobs[w.ID]) > 0 {
			l.queue.Add(w.ID)
		}
	}
}

// inspectArchives hints deleted workspaces of which only an archive was left if that is
// gone. The garbage collector marks a row before it deletes the archive, so those are
// asked for first. Whatever else can have removed one is rare: of the others each step
// asks for a few.
func (l *loop) inspectArchives(ctx context.Context, rows []workspace.Workspace) {
	rand.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	slices.SortStableFunc(rows, func(a, b workspace.Workspace) int {
		return cmp.Compare(b.CollectedAt.Unix(), a.CollectedAt.Unix()) // unmarked ones last
	})
	for _, w := range rows[:min(len(rows), sweepArchives)] {
		bounded, cancel := context.WithTimeout(ctx, probe.Timeout)
		_, err := l.archives.Stat(bounded, w.ArchiveKey)
		cancel()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			l.queue.Add(w.ID) // the loop asks again, and whose bucket it is
		case err != nil && workspace.ReasonOf(err) != workspace.ReasonArchiveCorrupted:
			return // the store is away or refuses: the next step asks again
		}
	}
}
