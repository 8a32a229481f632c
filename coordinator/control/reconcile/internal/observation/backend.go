// Package observation reads what the container backend and the object store hold for workspaces, and the progress that
// storage jobs report. It owns which answers are trusted. It rejects:
//   - any answer of a backend or a bucket that is not the recorded one (SPEC 2), and absence according to a sensor
//     that has not answered;
//   - an old answer of the object store;
//   - a loss of data that only one look shows, or that too many workspaces show at once ([Breaker]).
//
// It must not read or write rows, change anything, or decide the consequences.
package observation

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Identity compares the servers with the recorded ones. A method returns nil only if the server that answers is the
// recorded one.
type Identity interface {
	Backend(ctx context.Context) error
	Bucket(ctx context.Context) error
}

// Snapshot is what the backend reported at one time.
type Snapshot struct {
	Containers map[workspace.ID]workspace.Container
	Volumes    map[workspace.ID]workspace.Volume
	Jobs       map[workspace.ID][]workspace.Job
	// Unseen are the sensors that have not answered; Reason and Message are why.
	Unseen          workspace.Sensors
	Reason, Message string
}

// Outages logs and counts the outages of each sensor separately.
type Outages struct {
	containers, volumes, jobs *outage.Reporter
	metrics                   *metrics.Reconcile
}

// NewOutages returns Outages that logs to log and, if m is not nil, counts in m.
func NewOutages(log *zap.Logger, m *metrics.Reconcile) Outages {
	return Outages{
		containers: NewOutage(log, "containers"), volumes: NewOutage(log, "volumes"),
		jobs: NewOutage(log, "storage jobs"), metrics: m,
	}
}

// NewOutage returns a reporter that logs when something cannot be observed, and when it can be observed again.
func NewOutage(log *zap.Logger, what string) *outage.Reporter {
	return outage.New(log, zap.ErrorLevel,
		"cannot observe "+what+"; what depends on them stays as it is until it works again", "observing "+what+
			" works again")
}

// Read reads containers, volumes and jobs at the same time, each in one call. It uses their answers only if the backend
// is still the recorded one after the last answer. A sensor that has not answered when bounded ends counts as not
// answering.
func Read(ctx, bounded context.Context, sensors backend.Sensors, servers Identity, log Outages,
	ids []workspace.ID) Snapshot {
	var snap Snapshot
	var failed [3]error
	var all sync.WaitGroup
	for i, read := range []func() error{
		func() (err error) { snap.Containers, err = sensors.Containers(bounded, ids...); return err },
		func() (err error) { snap.Volumes, err = sensors.Volumes(bounded, ids...); return err },
		func() (err error) { snap.Jobs, err = sensors.Jobs(bounded, ids...); return err },
	} {
		all.Go(func() { failed[i] = guard.Call(guard.Task, read) })
	}
	all.Wait()
	log.containers.Report(ctx, failed[0])
	log.volumes.Report(ctx, failed[1])
	log.jobs.Report(ctx, failed[2])
	for i, s := range []workspace.Sensors{workspace.SensorContainers, workspace.SensorVolumes, workspace.SensorJobs} {
		log.metrics.Sensed(ctx, observed[i], failed[i])
		if failed[i] != nil {
			snap.Unseen |= s
			snap.Reason, snap.Message = workspace.WaitBackendAway, "the container backend does not answer: "+
				failed[i].Error()
		}
	}
	if snap.Unseen == workspace.AllSensors {
		return snap
	}
	if err := servers.Backend(bounded); err != nil { // the guard logs it
		snap.Unseen = workspace.AllSensors
		snap.Reason, snap.Message = backendWait(err), err.Error()
	}
	return snap
}

// observed are the sensors of a snapshot, in the order in which they are asked.
var observed = [...]metrics.Sensor{metrics.Containers, metrics.Volumes, metrics.Jobs}

// backendWait returns the reason for which workspaces wait after an error of [Identity.Backend].
func backendWait(err error) string {
	var mismatch *identity.MismatchError
	if errors.As(err, &mismatch) {
		return workspace.WaitBackendMismatch
	}
	return workspace.WaitBackendAway
}

// Of returns the observation of one workspace.
func (s Snapshot) Of(id workspace.ID) workspace.Observation {
	o := workspace.Observation{Jobs: s.Jobs[id], Unseen: s.Unseen, UnseenReason: s.Reason, UnseenMessage: s.Message}
	if k, ok := s.Containers[id]; ok {
		o.Container = &k
	}
	if v, ok := s.Volumes[id]; ok {
		o.Volume = &v
	}
	return o
}
