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

// WithRequest returns a context for what is done for a request. id returns the request's id; it is called only
// when something is logged or saved.
func WithRequest(ctx context.Context, id func() string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

// Request returns the id of the request for which ctx is, empty if there is none.
func Request(ctx context.Context) string {
	if id, ok := ctx.Value(requestKey{}).(func() string); ok {
		return id()
	}
	return ""
}

// Fields are the fields of a line about what ctx is for: the request's id and the trace, as far as there are such.
// They have the keys that Caddy's access log uses.
func Fields(ctx context.Context) (fields []zap.Field) {
	if id := Request(ctx); id != "" {
		fields = append(fields, zap.String(logkey.Request, id))
	}
	if id := ID(ctx); id != "" {
		fields = append(fields, zap.String(logkey.Trace, id))
	}
	return fields
}

// ID returns the id of the trace that ctx is of, empty if there is none.
func ID(ctx context.Context) string {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		return span.TraceID().String()
	}
	return ""
}

// traceparent is the key of the W3C trace context.
const traceparent = "traceparent"

// Origin returns what to save with a change, so that another process can join what it does for it to the request. It
// is nil where there is nothing to join.
func Origin(ctx context.Context) *workspace.Origin {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	o := workspace.Origin{Request: Request(ctx), Trace: carrier[traceparent]}
	if o == (workspace.Origin{}) {
		return nil
	}
	return &o
}

// From returns a context for what is done for a change of that origin.
func From(ctx context.Context, o *workspace.Origin) context.Context {
	if o == nil {
		return ctx
	}
	if o.Request != "" {
		ctx = WithRequest(ctx, func() string { return o.Request })
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{traceparent: o.Trace})
}

// Join returns ctx for what is done for the request of another context, whose end does not matter.
func Join(ctx, request context.Context) context.Context {
	if id, ok := request.Value(requestKey{}).(func() string); ok {
		ctx = WithRequest(ctx, id)
	}
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(request))
}
