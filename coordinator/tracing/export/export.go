// Package export creates the tracer that the environment requests with the standard variables OTEL_….
//
// It owns how spans get to a collector. It is separate from package tracing because the protocols are large, and only
// the complete program needs them. It must not choose the traced operations.
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

// closeTimeout limits how long a process that ends waits for a collector.
const closeTimeout = 3 * time.Second

// New returns the tracer that the environment requests, or one that records nothing if the environment names no
// exporter. The spans name node as their process. New does not connect: spans are sent in the background, and are
// dropped while the collector is away. The outage is logged once. An error names the variable that is wrong.
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
		_ = p.Shutdown(ctx) // it is already logged that the collector is away
	}), nil
}

// configured reports whether the environment names an exporter. Without one, Caddy's own tracing expects a collector on
// this machine. Here that would be an outage wherever nothing should be traced.
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

// ExportSpans implements [sdktrace.SpanExporter]. It returns no errors, because the SDK would print them outside the
// log.
func (r *reporting) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		r.outage.Failed(err)
	} else {
		r.outage.Recovered()
	}
	return nil
}
