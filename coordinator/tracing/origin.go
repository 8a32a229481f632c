package tracing

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/workspace"
)

type requestKey struct{}

// WithRequest returns a context for work done for a request. id returns the request's id; it is called only when
// something is logged or saved.
func WithRequest(ctx context.Context, id func() string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Request returns the id of the request to which ctx belongs, or "" if there is none.
func Request(ctx context.Context) string {
	if id, ok := ctx.Value(requestKey{}).(func() string); ok {
		return id()
	}
	return ""
}

// Fields returns the fields of a log line about the work of ctx: the request's id and the trace, if they exist. Their
// keys are those of Caddy's access log.
func Fields(ctx context.Context) (fields []zap.Field) {
	if id := Request(ctx); id != "" {
		fields = append(fields, zap.String(logkey.Request, id))
	}
	if id := ID(ctx); id != "" {
		fields = append(fields, zap.String(logkey.Trace, id))
	}
	return fields
}

// ID returns the id of the trace to which ctx belongs, or "" if there is none.
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// traceparent is the key of the W3C trace context.
const traceparent = "traceparent"

// Origin returns what to save with a change, so that another process can join its work for the change to the request.
// It is nil if there is nothing to join.
func Origin(ctx context.Context) *workspace.Origin {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	o := workspace.Origin{Request: Request(ctx), Trace: carrier[traceparent]}
	if o == (workspace.Origin{}) {
		return nil
	}
	return &o
}

// From returns a context for work done for a change of that origin.
func From(ctx context.Context, o *workspace.Origin) context.Context {
	if o == nil {
		return ctx
	}
	if o.Request != "" {
		ctx = WithRequest(ctx, func() string { return o.Request })
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: o.Trace})
}

// Join returns ctx with the request and trace of another context, for work done for that request. The end of the other
// context does not matter.
func Join(ctx, request context.Context) context.Context {
	if id, ok := request.Value(requestKey{}).(func() string); ok {
		ctx = WithRequest(ctx, id)
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(request))
}
