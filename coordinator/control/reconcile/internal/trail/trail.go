// Package trail records the course of the workspaces' operations in logs and traces. It connects each operation to the
// request that caused it, which another process may have received, and to its storage job.
//
// It owns the lines and spans of operations and jobs, for one term as the leader. It must not decide anything.
package trail

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Operation is an operation in progress. Its methods do nothing if it is nil.
type Operation struct {
	tracer *tracing.Tracer
	log    *zap.Logger
	ctx    context.Context // its values alone
	span   trace.Span
	row    workspace.Workspace
	began  time.Time
	told   string // the job whose end was recorded
}

// Begin begins to record the operation of w. The operation began that long ago, perhaps under another leader.
func Begin(w workspace.Workspace, ago time.Duration, tracer *tracing.Tracer, log *zap.Logger) *Operation {
	o := &Operation{tracer: tracer, log: log, row: w, began: time.Now().Add(-ago)}
	o.ctx, o.span = tracer.Start(tracing.From(context.Background(), w.Origin), tracing.Operation+string(w.Operation),
		trace.WithTimestamp(o.began), trace.WithAttributes(attribute.String(logkey.Workspace, string(w.ID)),
			attribute.String(logkey.Operation, string(w.Operation))))
	return o
}

// Of reports whether o is the operation that w has in progress.
func (o *Operation) Of(w workspace.Workspace) bool {
	return o != nil && o.row.Operation == w.Operation && o.row.OpStartedAt.Equal(w.OpStartedAt)
}

// Context returns ctx for work that belongs to the operation.
func (o *Operation) Context(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return tracing.Join(ctx, o.ctx)
}

// Done records a step that was done for the operation. The step has ended just now, and took that long.
func (o *Operation) Done(name string, took time.Duration) {
	if o == nil {
		return
	}
	_, span := o.tracer.Start(o.ctx, name, trace.WithTimestamp(time.Now().Add(-took)))
	span.End()
}

// Jobs records the end of the operation's storage job, once. w is the workspace's present row.
func (o *Operation) Jobs(w workspace.Workspace, jobs []workspace.Job) {
	if o == nil {
		return
	}
	for _, j := range jobs {
		if j.OpID == "" || j.OpID != w.JobOpID() || j.OpID == o.told || j.Unknown != "" ||
			j.State != workspace.JobSucceeded && j.State != workspace.JobFailed {
			continue
		}
		o.told = j.OpID
		o.logJob(j)
		o.traceJob(j)
	}
}

func (o *Operation) logJob(j workspace.Job) {
	fields := append(tracing.Fields(o.ctx), zap.String(logkey.Workspace, string(o.row.ID)),
		zap.String(logkey.Operation, string(o.row.Operation)), zap.String(logkey.OpID, j.OpID),
		zap.Int64(logkey.Bytes, j.Content), zap.Int64(logkey.Files, j.Files))
	if j.Course != nil {
		fields = append(fields, zap.Duration(logkey.Duration, j.Course.Took))
	}
	if j.State == workspace.JobSucceeded {
		o.log.Info("storage job done", fields...)
		return
	}
	// The consequence of the failure has a line of its own, which shows how serious it is.
	o.log.Info("storage job failed", append(fields, zap.String(logkey.ErrorReason, string(j.Reason)),
		zap.String(logkey.Message, j.Message))...)
}

// traceJob records when the job took which step. The clock of the job's machine may be wrong, so the job is moved if it
// would have begun before the operation, or would end in the future.
func (o *Operation) traceJob(j workspace.Job) {
	c := j.Course
	if c == nil {
		return
	}
	began, now := c.Began, time.Now()
	if latest := now.Add(-c.Took); began.After(latest) {
		began = latest
	}
	if began.Before(o.began) {
		began = o.began
	}
	end := began.Add(c.Took)
	ctx, job := o.tracer.Start(o.ctx, tracing.Job+"run", trace.WithTimestamp(began), trace.WithAttributes(
		attribute.String(logkey.OpID, j.OpID), attribute.Int64(logkey.Bytes, j.Content),
		attribute.Int64(logkey.Files, j.Files), attribute.String(logkey.ErrorReason, string(j.Reason))))
	for i, s := range c.Stages {
		until := end
		if i+1 < len(c.Stages) {
			until = began.Add(c.Stages[i+1].At)
		}
		_, step := o.tracer.Start(ctx, tracing.Job+s.Step, trace.WithTimestamp(began.Add(s.At)))
		step.End(trace.WithTimestamp(until))
	}
	job.End(trace.WithTimestamp(end))
}

// End ends the record of the operation. next is the row that was saved. A zero row means that another leader continues
// the operation.
func (o *Operation) End(next workspace.Workspace) {
	if o == nil {
		return
	}
	if next.ID != "" {
		o.span.SetAttributes(attribute.String(logkey.Phase, string(next.Phase)),
			attribute.String(logkey.ErrorReason, string(next.ErrorReason)))
		if next.ErrorCount > o.row.ErrorCount {
			tracing.Failed(o.span, string(next.ErrorReason))
		}
	}
	o.span.End()
}
