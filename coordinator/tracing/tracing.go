// Package tracing joins the work of several processes for one request: with spans of OpenTelemetry, and with the
// request's id in the lines of the log.
//
// It owns the names of spans, and the form in which a request's origin is stored in the database. It must not decide
// what is traced beyond the sampling that the environment requests. A span contains no secret, no address of a person's
// machine and no query of a request. The attributes are the keys of package logkey.
//
// Package export creates a tracer that sends its spans to a collector.
package tracing

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/codehub/gateway/coordinator/logkey"
)

// The names of spans. A name that ends with a space is followed by one of a few words: an operation, an action, a
// method of the backend or a step of a storage job.
const (
	Hold      = "hold"         // a request waits
	Wake      = "wake"         // a workspace is woken
	Answer    = "first answer" // its container runs, and the application is probed until it answers
	Operation = "operation "
	Action    = "action "
	Backend   = "backend "
	Job       = "job " // also "job run" for the whole job
)

// Tracer starts spans. Its methods are safe for concurrent use.
type Tracer struct {
	trace.Tracer
	close func() // nil if nothing is recorded
}

// New returns a tracer that starts spans with t. Close calls end.
func New(t trace.Tracer, end func()) *Tracer { return &Tracer{Tracer: t, close: end} }

// Off returns a tracer that records nothing.
func Off() *Tracer { return &Tracer{Tracer: noop.NewTracerProvider().Tracer("")} }

// Within starts a span if ctx already belongs to a trace; otherwise the returned span records nothing.
func (t *Tracer) Within(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, trace.SpanFromContext(ctx)
	}
	return t.Start(ctx, name, options...)
}

// On reports whether spans are recorded at all.
func (t *Tracer) On() bool { return t.close != nil }

// Close sends the remaining spans, for a few seconds at most.
func (t *Tracer) Close() {
	if t.close != nil {
		t.close()
	}
}

// Link records in the trace of ctx that its work waits for the work of span, unless span already belongs to that trace.
func Link(ctx context.Context, span trace.Span) {
	waits, of := trace.SpanFromContext(ctx), span.SpanContext()
	if of.IsValid() && waits.SpanContext().TraceID() != of.TraceID() {
		waits.AddLink(trace.Link{SpanContext: of})
	}
}

// Waits records that the work of ctx waits for something.
func Waits(ctx context.Context, reason string) {
	trace.SpanFromContext(ctx).AddEvent("waits", trace.WithAttributes(attribute.String(logkey.Reason, reason)))
}

// Failed records that the work of span has failed.
func Failed(span trace.Span, why string) { span.SetStatus(codes.Error, why) }

// End ends a span, with the error if there is one.
func End(span trace.Span, err error) {
	if err != nil {
		Failed(span, err.Error())
	}
	span.End()
}
