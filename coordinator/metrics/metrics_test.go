package metrics

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/devenv/constants"
	"github.com/codehub/gateway/coordinator/workspace"
)

// full is a state in which everything is known.
func full() *State {
	return &State{Led: []Term{{0, 7}}, Leader: &LeaderState{
		Workspaces: new(Workspaces), Disk: new(Disk), Archives: new(ArchiveHealth), Collected: new(Collected),
	}}
}

func gather(t *testing.T, state func() *State) map[string]*dto.MetricFamily {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(New(state)); err != nil {
		t.Fatal(err)
	}
	all, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families := make(map[string]*dto.MetricFamily)
	for _, f := range all {
		families[f.GetName()] = f
	}
	return families
}

// The exposed metrics, labels and values are exactly those of the table.
func TestWhatIsToldIsTheTable(t *testing.T) {
	families := gather(t, full)
	for _, row := range table {
		f := families[row.Name]
		delete(families, row.Name)
		if f == nil {
			t.Errorf("%s is in the table and is not told", row.Name)
			continue
		}
		if want := map[Kind]dto.MetricType{
			Counter: dto.MetricType_COUNTER, Gauge: dto.MetricType_GAUGE, Histogram: dto.MetricType_HISTOGRAM,
		}[row.Kind]; f.GetType() != want {
			t.Errorf("%s is a %s, not a %s", row.Name, f.GetType(), want)
		}
		if len(row.Help) < 20 || row.Help[len(row.Help)-1] != '.' {
			t.Errorf("the help of %s is no sentence: %q", row.Name, row.Help)
		}
		series := 1
		for _, l := range row.Labels {
			series *= len(l.Values)
			if own := slices.Compact(slices.Sorted(slices.Values(l.Values))); len(own) != len(l.Values) {
				t.Errorf("%s has a value of %s twice", row.Name, l.Name)
			}
		}
		if n := len(f.GetMetric()); n != series && row.Name != "codehub_leader_epoch" {
			t.Errorf("%s has %d series, want %d: all are told from the start", row.Name, n, series)
		}
		for _, m := range f.GetMetric() {
			for _, pair := range m.GetLabel() {
				if !slices.ContainsFunc(row.Labels, func(l Label) bool {
					return l.Name == pair.GetName() && slices.Contains(l.Values, pair.GetValue())
				}) {
					t.Errorf("%s has the label %s", row.Name, pair)
				}
			}
		}
	}
	for name := range families {
		t.Errorf("%s is told and is not in the table", name)
	}
}

func TestTheConventionsOfPrometheus(t *testing.T) {
	var all []*dto.MetricFamily
	for _, f := range gather(t, full) {
		all = append(all, f)
	}
	problems, err := promlint.NewWithMetricFamilies(all).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// Only the leader exports the values that only the leader knows, so that a sum over all processes counts nothing twice.
func TestOnlyTheLeaderTellsWhatItKnows(t *testing.T) {
	others := gather(t, func() *State { return new(State) })
	for _, row := range table {
		if told := others[row.Name] != nil; told == row.Leader {
			t.Errorf("a process that does not lead tells %s: %v", row.Name, told)
		}
	}
	unknown := gather(t, func() *State { return &State{Leader: new(LeaderState)} })
	if unknown["codehub_workspaces"] != nil || unknown["codehub_workspaces_dozing"] != nil || unknown["codehub_archives"] != nil {
		t.Error("numbers are told that are not known")
	}
}

// The values of labels are the constants that they stand for.
func TestTheLabelsHaveAllValues(t *testing.T) {
	read := func(typeName, prefix string) []string {
		t.Helper()
		values, err := constants.Read[string]("../workspace", typeName, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return values
	}
	for _, c := range []struct {
		label Label
		want  []string
		less  []string // that have none
	}{
		{phases, read("Phase", ""), []string{"DELETED"}},
		{operations, read("Operation", ""), []string{"NONE"}},
		{desiredStates, read("DesiredState", ""), nil},
		{errorReasons, read("ErrorReason", ""), nil},
		{waits, read("-", "Wait"), nil},
	} {
		got := slices.DeleteFunc(slices.Sorted(slices.Values(c.label.Values)), func(v string) bool { return v == other })
		want := slices.DeleteFunc(c.want, func(v string) bool { return slices.Contains(c.less, v) })
		if !slices.Equal(got, want) {
			t.Errorf("the label %s has %q, want %q", c.label.Name, got, want)
		}
	}
	for name, n := range map[string][2]int{
		"clients": {len(clients.Values), int(Subresource) + 1}, "outcomes": {len(outcomes.Values), int(ClientGone) + 1},
		"refusals": {len(refusalReasons.Values), int(RefusedUnreachable)},
		"signals":  {len(signals.Values), int(ByCommand) + 1},
		"stages":   {len(stages.Values), Stages}, "ends": {len(wakeEnds.Values), int(WakeStopped) + 1},
		"sensors": {len(sensors.Values), int(ObjectStore) + 1},
	} {
		if n[0] != n[1] {
			t.Errorf("%s have %d values and %d constants", name, n[0], n[1])
		}
	}
}

// No kind of recording allocates.
func TestRecordingDoesNotAllocate(t *testing.T) {
	m, ctx, failed := New(full), t.Context(), errors.New("no answer")
	prev := workspace.Workspace{Operation: workspace.OpStarting, OpStartedAt: time.Unix(1, 0)}
	next := workspace.Workspace{Operation: workspace.OpNone, ErrorCount: 1, ErrorReason: workspace.ReasonTimeout}
	wake := WakeUp{Client: Navigation, From: workspace.PhaseArchived, Total: time.Second}
	wake.Stages[Restoring] = time.Second
	record := func() {
		m.Gateway.Answered(Navigation, Proxied, NotRefused)
		m.Gateway.Answered(Program, Refused, RefusedTimeout)
		m.Gateway.Held(Program, time.Second)
		m.Gateway.WebSocket(1)
		m.Activity.Used(ByMessage)
		m.Events.TooSlow()
		m.Wakes.Ended(&wake)
		m.Service.Desired(workspace.DesiredStandby, audit.Idle)
		m.Service.Dozed()
		m.Reconcile.Cycle("everything", time.Now())
		m.Reconcile.Sensed(ctx, Containers, nil)
		m.Reconcile.Sensed(ctx, Containers, failed)
		m.Reconcile.Saved(&prev, &next, nil, time.Unix(5, 0))
		m.Reconcile.Acted("start", time.Second, time.Second, failed)
		m.S3.Requested("GetObject", 200, time.Second)
	}
	if n := testing.AllocsPerRun(100, record); n != 0 {
		t.Errorf("recording allocates %v times", n)
	}
}

// A nil part records nothing, so that other packages work without metrics.
func TestNilRecordsNothing(t *testing.T) {
	var m Metrics
	m.Gateway.Answered(Program, Refused, RefusedTimeout)
	m.Gateway.Held(Program, 0)
	m.Gateway.WebSocket(1)
	m.Activity.Used(ByMessage)
	m.Events.TooSlow()
	m.Wakes.Ended(new(WakeUp))
	m.Service.Desired(workspace.DesiredRunning, "api")
	m.Service.WrongSleep()
	m.Service.Dozed()
	m.Leader.Began()
	m.Reconcile.Cycle("requested", time.Now())
	m.Reconcile.Sensed(t.Context(), Jobs, nil)
	m.Reconcile.Saved(new(workspace.Workspace), new(workspace.Workspace), nil, time.Now())
	m.Reconcile.Acted("start", 0, 0, nil)
	m.S3.Requested("GetObject", 200, 0)
	m.S3.Sent(1)
	m.S3.Received(1)
	m.Archives.Collected(1, 1, 1, 1)
	m.Archives.ReadBack("whole", 1)
	if err := m.Cycles.Counting("gc", func(context.Context) error { return nil })(t.Context()); err != nil {
		t.Error(err)
	}
	for f := range reflect.TypeFor[Metrics]().Fields() {
		if f.IsExported() && f.Type.Kind() != reflect.Pointer {
			t.Errorf("%s is no pointer", f.Name)
		}
	}
}

// Saved recognises the end of an operation by the difference between the previous row and the next one.
func TestOperationsByOutcome(t *testing.T) {
	began := time.Unix(100, 0)
	running := workspace.Workspace{Phase: workspace.PhaseStandby, Operation: workspace.OpStarting, OpStartedAt: began}
	for name, c := range map[string]struct {
		next    workspace.Workspace
		outcome string
	}{
		"ended":    {workspace.Workspace{Phase: workspace.PhaseRunning, Operation: workspace.OpNone}, "succeeded"},
		"followed": {workspace.Workspace{Operation: workspace.OpStopping, OpStartedAt: began.Add(1)}, "succeeded"},
		"failed": {workspace.Workspace{Phase: workspace.PhaseError, Operation: workspace.OpNone, ErrorCount: 1,
			ErrorReason: workspace.ReasonTimeout}, "failed"},
		"postponed": {workspace.Workspace{Operation: workspace.OpNone,
			Waiting: &workspace.Waiting{Reason: workspace.WaitStoreAway}}, "postponed"},
		"in progress": {running, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := New(full)
			m.Reconcile.Saved(&running, &c.next, nil, began.Add(3*time.Second))
			for _, outcome := range operationEnds.Values {
				var got dto.Metric
				series := m.Reconcile.operations.of(string(workspace.OpStarting), outcome)
				if err := series.(prometheus.Histogram).Write(&got); err != nil {
					t.Fatal(err)
				}
				want := uint64(0)
				if outcome == c.outcome {
					want = 1
				}
				if n := got.GetHistogram().GetSampleCount(); n != want {
					t.Errorf("%d operations have %s", n, outcome)
				}
			}
		})
	}
}

// An archive is counted once: when its key is saved, which happens before its operation ends.
func TestArchivedBytes(t *testing.T) {
	m, at := New(full), time.Unix(100, 0)
	archiving := workspace.Workspace{Operation: workspace.OpArchiving, OpStartedAt: at, ArchiveKey: "old"}
	saved, ended := archiving, archiving
	saved.ArchiveKey, ended.ArchiveKey, ended.Operation = "new", "new", workspace.OpNone
	record := &workspace.ArchiveRecord{Size: 1000}
	m.Reconcile.Saved(&archiving, &saved, record, at)
	m.Reconcile.Saved(&saved, &ended, record, at)
	restoring := workspace.Workspace{Operation: workspace.OpRestoring, OpStartedAt: at, ArchiveKey: "new"}
	m.Reconcile.Saved(&restoring, &ended, record, at)
	var got dto.Metric
	if err := m.Reconcile.archived.Write(&got); err != nil {
		t.Fatal(err)
	}
	if n := got.GetCounter().GetValue(); n != 1000 {
		t.Errorf("%v bytes were archived, want 1000", n)
	}
}
