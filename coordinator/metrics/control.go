package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Service counts changes of desired states. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Service struct {
	changes      series[prometheus.Counter]
	wrong, dozes prometheus.Counter
}

func newService(m *Metrics) *Service {
	return &Service{counters(m, "codehub_desired_state_changes_total"), counters(m, "codehub_wrong_sleeps_total").all[0], counters(m, "codehub_dozes_total").all[0]}
}

// Desired counts a change.
func (s *Service) Desired(d workspace.DesiredState, cause audit.Through) {
	if s != nil {
		s.changes.of(string(d), string(cause)).Inc()
	}
}

// WrongSleep counts a workspace that was put to sleep and is wanted again soon afterwards.
func (s *Service) WrongSleep() {
	if s != nil {
		s.wrong.Inc()
	}
}

// Dozed counts a workspace that begins to doze.
func (s *Service) Dozed() {
	if s != nil {
		s.dozes.Inc()
	}
}

// Leader counts the terms of this process.
type Leader struct{ terms prometheus.Counter }

func newLeader(m *Metrics) *Leader { return &Leader{counters(m, "codehub_leader_terms_total").all[0]} }

// Began counts a new term.
func (l *Leader) Began() {
	if l != nil {
		l.terms.Inc()
	}
}

// Sensor is a source of the controller's observations, in the order of [sensors].
type Sensor uint8

// The sensors.
const (
	Database Sensor = iota
	Containers
	Volumes
	Jobs
	ObjectStore
)

// Reconcile counts the controller's work. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Reconcile struct {
	cycles, operations, actions series[prometheus.Observer]
	failures, actionErrors      series[prometheus.Counter]
	sensorErrors                series[prometheus.Counter]
	answers                     series[prometheus.Gauge]
	waited                      prometheus.Observer
	archived                    prometheus.Counter
}

func newReconcile(m *Metrics) *Reconcile {
	return &Reconcile{
		cycles: histograms(m, "codehub_reconcile_duration_seconds"), operations: histograms(m, "codehub_operation_duration_seconds"),
		failures: counters(m, "codehub_operation_failures_total"), sensorErrors: counters(m, "codehub_sensor_errors_total"),
		answers: gauges(m, "codehub_sensor_last_answer_timestamp_seconds"), actions: histograms(m, "codehub_actuator_call_duration_seconds"),
		actionErrors: counters(m, "codehub_actuator_call_errors_total"), waited: histograms(m, "codehub_actuator_wait_seconds").all[0],
		archived: counters(m, "codehub_archived_bytes_total").all[0],
	}
}

// Cycle counts a look at the workspaces of a scope, which began at that time.
func (r *Reconcile) Cycle(scope string, began time.Time) {
	if r != nil {
		r.cycles.of(scope).Observe(time.Since(began).Seconds())
	}
}

// Sensed records whether a sensor has answered. An error after ctx has ended is ignored.
func (r *Reconcile) Sensed(ctx context.Context, s Sensor, err error) {
	switch {
	case r == nil || err != nil && ctx.Err() != nil:
	case err != nil:
		r.sensorErrors.at(int(s)).Inc()
	default:
		r.answers.at(int(s)).SetToCurrentTime()
	}
}

// Saved counts the end of prev's operation and the creation of its archive, if the saved decision contains them.
// archived describes the archive, or is nil. at is the database's time.
func (r *Reconcile) Saved(prev, next *workspace.Workspace, archived *workspace.ArchiveRecord, at time.Time) {
	if r == nil || prev.Operation == workspace.OpNone {
		return
	}
	if prev.Operation == workspace.OpArchiving && archived != nil && next.ArchiveKey != prev.ArchiveKey {
		r.archived.Add(float64(max(archived.Size, 0)))
	}
	if next.Operation == prev.Operation && next.OpStartedAt.Equal(prev.OpStartedAt) {
		return
	}
	outcome := "succeeded"
	switch {
	case next.ErrorCount > prev.ErrorCount || next.Phase == workspace.PhaseError && prev.Phase != workspace.PhaseError:
		outcome = "failed"
		r.failures.of(string(prev.Operation), string(next.ErrorReason)).Inc()
	case next.Waiting != nil:
		outcome = "postponed"
	}
	r.operations.of(string(prev.Operation), outcome).Observe(max(at.Sub(prev.OpStartedAt), 0).Seconds())
}

// Acted counts an actuator call, with the time that the call waited for its turn and the time that it took.
func (r *Reconcile) Acted(action string, waited, took time.Duration, err error) {
	if r == nil {
		return
	}
	r.waited.Observe(waited.Seconds())
	r.actions.of(action).Observe(took.Seconds())
	if err != nil {
		r.actionErrors.of(action).Inc()
	}
}

// Cycles counts the runs of periodic work. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Cycles struct {
	took   series[prometheus.Observer]
	failed series[prometheus.Counter]
	done   series[prometheus.Gauge]
}

func newCycles(m *Metrics) *Cycles {
	return &Cycles{histograms(m, "codehub_cycle_duration_seconds"), counters(m, "codehub_cycle_errors_total"), gauges(m, "codehub_cycle_last_success_timestamp_seconds")}
}

// Counting wraps work so that its runs are counted for a component, one of [components].
func (c *Cycles) Counting(component string, work func(context.Context) error) func(context.Context) error {
	if c == nil {
		return work
	}
	took, failed, done := c.took.of(component), c.failed.of(component), c.done.of(component)
	return func(ctx context.Context) error {
		began := time.Now()
		err := work(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return err // the term is over
		case err != nil:
			failed.Inc()
		default:
			done.SetToCurrentTime()
		}
		took.Observe(time.Since(began).Seconds())
		return err
	}
}
