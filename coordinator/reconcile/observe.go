package reconcile

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/outage"
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
	rows       []workspace.Workspace
	containers map[workspace.ID]workspace.Container
	volumes    map[workspace.ID]workspace.Volume
	jobs       map[workspace.ID][]workspace.Job
	// unseen are the sensors that have not answered; reason and message are why.
	unseen          workspace.Sensors
	reason, message string
}

// sensing logs the outages of what is observed, each by itself.
type sensing struct {
	rows, containers, volumes, jobs *outage.Reporter
}

func newSensing(log *zap.Logger) sensing {
	of := func(what string) *outage.Reporter {
		return outage.New(log, zap.ErrorLevel,
			"cannot observe "+what+"; what depends on them stays as it is until it works again", "observing "+what+" works again")
	}
	return sensing{rows: of("workspaces"), containers: of("containers"), volumes: of("volumes"), jobs: of("storage jobs")}
}

// observe reads the rows of a scope, and what the backend holds of them. An error means
// that the rows could not be read; a sensor that fails is unseen in the snapshot.
func (l *loop) observe(ctx context.Context, s scope, ids []workspace.ID) (snapshot, error) {
	bounded, cancel := context.WithTimeout(ctx, observeTimeout)
	defer cancel()
	rows, err := l.rows(bounded, s, ids)
	l.observing.rows.Report(ctx, err) // that the time is up is an outage, too
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
	snap := l.sense(ctx, bounded, l.observing, ids)
	snap.rows = rows
	return snap, nil
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

// sense reads containers, volumes and jobs at the same time, each in one call. What they
// say is used only if the backend is the recorded one, also after the last answer. A
// sensor that has not answered when the time of bounded is up does not answer.
func (c *Controller) sense(ctx, bounded context.Context, log sensing, ids []workspace.ID) snapshot {
	var snap snapshot
	var failed [3]error
	var g errgroup.Group
	g.Go(func() error { snap.containers, failed[0] = c.backend.Containers(bounded, ids...); return nil })
	g.Go(func() error { snap.volumes, failed[1] = c.backend.Volumes(bounded, ids...); return nil })
	g.Go(func() error { snap.jobs, failed[2] = c.backend.Jobs(bounded, ids...); return nil })
	_ = g.Wait()
	log.containers.Report(ctx, failed[0])
	log.volumes.Report(ctx, failed[1])
	log.jobs.Report(ctx, failed[2])
	for i, s := range []workspace.Sensors{workspace.SensorContainers, workspace.SensorVolumes, workspace.SensorJobs} {
		if failed[i] != nil {
			snap.unseen |= s
			snap.reason, snap.message = workspace.WaitBackendAway, "the container backend does not answer: "+failed[i].Error()
		}
	}
	if snap.unseen == workspace.AllSensors {
		return snap
	}
	if err := c.identity.Backend(bounded); err != nil { // the guard logs it
		snap.unseen = workspace.AllSensors
		snap.reason, snap.message = backendWait(err), err.Error()
	}
	return snap
}

// backendWait is what a workspace waits for after an error of [Identity.Backend].
func backendWait(err error) string {
	var mismatch *identity.MismatchError
	if errors.As(err, &mismatch) {
		return workspace.WaitBackendMismatch
	}
	return workspace.WaitBackendAway
}

// of returns the observation of one workspace.
func (s snapshot) of(id workspace.ID) workspace.Observation {
	o := workspace.Observation{Jobs: s.jobs[id], Unseen: s.unseen, UnseenReason: s.reason, UnseenMessage: s.message}
	if k, ok := s.containers[id]; ok {
		o.Container = &k
	}
	if v, ok := s.volumes[id]; ok {
		o.Volume = &v
	}
	return o
}
