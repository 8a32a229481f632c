package trail

import (
	"context"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

const parent = "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01"

func newTrail() (*tracing.Tracer, *tracetest.SpanRecorder, *zap.Logger, *observer.ObservedLogs) {
	spans := tracetest.NewSpanRecorder()
	core, logs := observer.New(zap.InfoLevel)
	return tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer(""), func() {}), spans,
		zap.New(core), logs
}

func restoring(origin *workspace.Origin) workspace.Workspace {
	w := workspace.Workspace{ID: "w", Operation: workspace.OpRestoring, OpStartedAt: time.Now(), Origin: origin}
	w.HomeCtx.RestoreOpID = "op"
	return w
}

// TestAnOperationOfARequest: the spans of an operation are children of the request's span in another process, and its
// log lines name the request. The end of its job is recorded once, even if the clock of the job's machine is wrong.
func TestAnOperationOfARequest(t *testing.T) {
	for name, skew := range map[string]time.Duration{"one clock": 0, "a fast clock": time.Hour, "a slow clock": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			tracer, spans, log, logs := newTrail()
			w := restoring(&workspace.Origin{Request: "r", Trace: parent})
			before := time.Now()
			o := Begin(w, 10*time.Second, tracer, log)
			jobs := []workspace.Job{{OpID: "other", State: workspace.JobSucceeded}, {
				OpID: "op", State: workspace.JobSucceeded, Content: 7, Files: 2, Course: &workspace.JobCourse{
					Began: before.Add(skew - 3*time.Second), Took: 3 * time.Second,
					Stages: []workspace.JobStage{{Step: "unpack", At: time.Second}, {Step: "swap", At: 2 * time.Second}},
				}}}
			o.Jobs(w, []workspace.Job{{OpID: "op", State: workspace.JobRunning}})
			o.Jobs(w, jobs)
			o.Jobs(w, jobs)
			o.Done("backend Pull", time.Second)
			next := w
			next.Phase = workspace.PhaseStandby
			o.End(next)

			byName := make(map[string]sdktrace.ReadOnlySpan)
			for _, s := range spans.Ended() {
				if byName[s.Name()] != nil {
					t.Errorf("%s was recorded twice", s.Name())
				}
				if s.SpanContext().TraceID().String() != parent[3:35] {
					t.Errorf("%s is of another trace", s.Name())
				}
				byName[s.Name()] = s
			}
			operation := byName["operation RESTORING"]
			if operation.Parent().SpanID().String() != parent[36:52] || len(byName) != 5 {
				t.Fatalf("recorded %v", byName)
			}
			for _, c := range []struct {
				name, parent string
				took         time.Duration
			}{
				{"job run", "operation RESTORING", 3 * time.Second}, {"job unpack", "job run", time.Second},
				{"job swap", "job run", time.Second}, {"backend Pull", "operation RESTORING", time.Second},
			} {
				s, above := byName[c.name], byName[c.parent]
				if s.Parent().SpanID() != above.SpanContext().SpanID() {
					t.Errorf("%s is not below %s", c.name, c.parent)
				}
				if took := s.EndTime().Sub(s.StartTime()); (took - c.took).Abs() > 500*time.Millisecond {
					t.Errorf("%s took %s, want %s", c.name, took, c.took)
				}
				if s.StartTime().Before(above.StartTime()) || s.EndTime().After(above.EndTime()) {
					t.Errorf("%s is not within %s", c.name, c.parent)
				}
			}
			lines := logs.All()
			if len(lines) != 1 || lines[0].Message != "storage job done" {
				t.Fatalf("logged %v", lines)
			}
			for key, want := range map[string]any{"uuid": "r", "traceID": parent[3:35], "workspace": "w", "op_id": "op",
				"operation": "RESTORING", "bytes": int64(7), "duration": 3 * time.Second} {
				if got := lines[0].ContextMap()[key]; got != want {
					t.Errorf("%s is %v, want %v", key, got, want)
				}
			}
		})
	}
}

// TestSampling: if the process that received a request decided not to trace it, the operation is not traced either.
func TestSampling(t *testing.T) {
	tracer, spans, log, _ := newTrail()
	o := Begin(restoring(&workspace.Origin{Trace: parent[:len(parent)-1] + "0"}), 0, tracer, log)
	o.Jobs(restoring(nil), []workspace.Job{{OpID: "op", State: workspace.JobFailed, Course: &workspace.JobCourse{}}})
	o.End(workspace.Workspace{})
	if n := len(spans.Ended()); n != 0 {
		t.Errorf("%d spans were recorded", n)
	}
}

// TestAnOperationOfNoRequest: an operation without a request has a trace of its own. If it fails, the trace records the
// failure.
func TestAnOperationOfNoRequest(t *testing.T) {
	tracer, spans, log, logs := newTrail()
	w := restoring(nil)
	o := Begin(w, 0, tracer, log)
	if !o.Of(w) || o.Of(workspace.Workspace{Operation: workspace.OpStarting}) || (*Operation)(nil).Of(w) {
		t.Error("another operation is taken for it")
	}
	o.Jobs(w, []workspace.Job{{OpID: "op", State: workspace.JobFailed, Reason: workspace.ReasonActionFailed}})
	next := w
	next.ErrorCount, next.ErrorReason = 1, workspace.ReasonActionFailed
	o.End(next)
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Parent().IsValid() || ended[0].Status().Description != "ActionFailed" {
		t.Errorf("recorded %v", ended)
	}
	if len(logs.FilterMessage("storage job failed").All()) != 1 {
		t.Errorf("logged %v", logs.All())
	}
	none := (*Operation)(nil)
	none.Jobs(w, nil)
	none.Done("", 0)
	none.End(w)
	if ctx := context.Background(); none.Context(ctx) != ctx {
		t.Error("no operation changes a context")
	}
}
