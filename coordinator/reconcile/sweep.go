package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// sweepPage is how many workspaces one step of a sweep looks at.
	sweepPage = 500
	// sweepTimeout bounds one step.
	sweepTimeout = 2 * time.Minute
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
	for ctx.Err() == nil {
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

// inspect hints the workspaces of a page that are not as their rows say.
func (l *loop) inspect(ctx context.Context, rows []workspace.Workspace) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var ids []workspace.ID
	for _, w := range rows {
		if w.AwaitsGC {
			l.inspectArchive(ctx, w)
		} else {
			ids = append(ids, w.ID)
		}
	}
	if len(ids) == 0 {
		return
	}
	snap := l.sense(ctx, ctx, newSensing(zap.NewNop()), ids) // the loop logs outages
	if snap.unseen != 0 {
		return
	}
	policy := l.policy()
	policy.NewOpID = func() string { return "" } // nothing is begun
	for _, w := range rows {
		if w.AwaitsGC {
			continue
		}
		if d := workspace.Reconcile(l.now(), w, snap.of(w.ID), true, policy); d.Changed || len(snap.jobs[w.ID]) > 0 {
			l.queue.Add(w.ID)
		}
	}
}

// inspectArchive hints a workspace of which only an archive was left if that is gone, or
// if its deletion was undone.
func (l *loop) inspectArchive(ctx context.Context, w workspace.Workspace) {
	if w.Deleted() {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		if _, err := l.archives.Stat(ctx, w.ArchiveKey); !errors.Is(err, fs.ErrNotExist) {
			return
		}
	}
	l.queue.Add(w.ID)
}
