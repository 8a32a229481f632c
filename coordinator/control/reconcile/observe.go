package reconcile

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sense"
	"github.com/codehub/gateway/coordinator/workspace"
)

// observeTimeout bounds one observation, so that a backend that hangs counts as one
// that does not answer.
const observeTimeout = 20 * time.Second

// listAll is the number of workspaces from which on everything is listed instead of
// each of them.
const listAll = 100

// scope is which workspaces an observation is about.
type scope int

const (
	requested    scope = iota // given ones: woken, hinted, or due
	transitional              // those that are about to change
	everything                // all candidates
)

// snapshot is what the database and the backend reported at one time.
type snapshot struct {
	sense.Snapshot
	rows  []workspace.Workspace
	began time.Time // before anything was read
}

// observe reads the rows of a scope, and what the backend holds of them. An error means
// that the rows could not be read; a sensor that fails is unseen in the snapshot.
func (l *loop) observe(ctx context.Context, s scope, ids []workspace.ID) (snapshot, error) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	var rows []workspace.Workspace
	err := l.clock.Measure(bounded)
	if err == nil {
		rows, err = l.rows(bounded, s, ids)
	}
	l.reading.Report(ctx, err) // that the time is up is an outage, too
	if err != nil {
		return snapshot{}, err
	}
	if len(rows) == 0 {
		return snapshot{}, nil
	}
	if s == everything && (len(rows) > listAll || l.brake.Suspects()) {
		ids = nil // to confirm a loss, what others have counts as well
	} else {
		ids = make([]workspace.ID, len(rows))
		for i, w := range rows {
			ids[i] = w.ID
		}
	}
	return snapshot{l.sense(ctx, bounded, l.observing, ids), rows, began}, nil
}

// rows returns the rows of a scope. All candidates include the workspaces whose loss is
// to be confirmed.
func (l *loop) rows(ctx context.Context, s scope, ids []workspace.ID) ([]workspace.Workspace, error) {
	if s == requested {
		return l.store.Workspaces(ctx, ids)
	}
	rows, err := l.store.Candidates(ctx, l.term.Shard, l.term.Shards, s == transitional)
	suspects := l.brake.Others(rows)
	if err != nil || s != everything || len(suspects) == 0 {
		return rows, err
	}
	more, err := l.store.Workspaces(ctx, suspects)
	return append(rows, more...), err
}

// sense reads what the backend holds of the workspaces.
func (c *Controller) sense(ctx, bounded context.Context, log sense.Outages, ids []workspace.ID) sense.Snapshot {
	return sense.Read(ctx, bounded, c.backend, c.identity, log, ids)
}
