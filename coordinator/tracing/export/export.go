// Package export makes the tracer that the environment asks for, by the standard variables OTEL_….
//
// It owns the way of spans to a collector, and stands apart from package tracing because the protocols weigh much: only
// the whole program needs them. It must not decide what is traced.
package export

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/tracing"
)

// closeTimeout bounds how long the end of the process waits for a collector.
const closeTimeout = 3 * time.Second

// New returns the tracer that the environment asks for; one that records nothing if it names no exporter. The spans name
// node as the process that they are from. New connects to nothing: spans are sent in the background, and are dropped
// while the collector is away, which log says once. An error names the variable that is wrong.
func New(node string, getenv func(string) string, log *zap.Logger) (*tracing.Tracer, error) {
	if !configured(getenv) {
		return tracing.Off(), nil
	}
	exporter, err := autoexport.NewSpanExporter(context.Background())
	if err != nil {
		return nil, fmt.Errorf("OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_…: %w", err)
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(attribute.String("service.instance.id", node)))
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	sent := &reporting{exporter, outage.New(log, zap.WarnLevel,
		"traces cannot be sent to the collector; they are dropped until they can", "traces are sent to the collector again")}
	p := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(sent))
	return tracing.New(p.Tracer("github.com/codehub/gateway"), func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = p.Shutdown(ctx) // that the collector is away is logged already
	}), nil
}

// configured reports whether the environment names an exporter. Caddy's own tracing takes one that nothing names for
// a collector on this machine. Here that would be an outage wherever nothing is to be traced.
func configured(getenv func(string) string) bool {
	if disabled, _ := strconv.ParseBool(getenv("OTEL_SDK_DISABLED")); disabled {
		return false
	}
	switch getenv("OTEL_TRACES_EXPORTER") {
	case "none":
		return false
	case "":
		return getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
	return true
}

// reporting is an exporter whose outages are logged once.
type reporting struct {
	sdktrace.SpanExporter
	outage *outage.Reporter
}

// ExportSpans implements [sdktrace.SpanExporter]. It hands no error on, which the SDK would print beside the log.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		r.outage.Failed(err)
	} else {
		r.outage.Recovered()
	}
	return nil
}
