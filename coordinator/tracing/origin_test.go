package tracing

import (
	"context"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestOrigin: one process joins what another one has saved. If there is nothing to join, nothing is saved.
func TestOrigin(t *testing.T) {
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	unsampled := span.WithTraceFlags(0)
	request := func(ctx context.Context) context.Context { return WithRequest(ctx, func() string { return "r" }) }
	for name, c := range map[string]struct {
		ctx    context.Context
		want   *workspace.Origin
		fields int
	}{
		"nothing":          {t.Context(), nil, 0},
		"an id without":    {WithRequest(t.Context(), func() string { return "" }), nil, 0},
		"a request":        {request(t.Context()), &workspace.Origin{Request: "r"}, 1},
		"a trace":          {trace.ContextWithSpanContext(t.Context(), span), &workspace.Origin{Trace: "00-01000000000000000000000000000000-0200000000000000-01"}, 1},
		"one not sampled":  {trace.ContextWithSpanContext(t.Context(), unsampled), &workspace.Origin{Trace: "00-01000000000000000000000000000000-0200000000000000-00"}, 1},
		"both":             {request(trace.ContextWithSpanContext(t.Context(), span)), &workspace.Origin{Request: "r", Trace: "00-01000000000000000000000000000000-0200000000000000-01"}, 2},
		"taken over":       {Join(t.Context(), request(trace.ContextWithSpanContext(t.Context(), span))), &workspace.Origin{Request: "r", Trace: "00-01000000000000000000000000000000-0200000000000000-01"}, 2},
		"of another thing": {Join(request(t.Context()), t.Context()), &workspace.Origin{Request: "r"}, 1},
	} {
		got := Origin(c.ctx)
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		ctx := From(t.Context(), got)
		if again := Origin(ctx); (again == nil) != (got == nil) || got != nil && *again != *got {
			t.Errorf("%s: %v comes back as %v", name, got, again)
		}
		if n := len(Fields(ctx)); n != c.fields {
			t.Errorf("%s: %d fields, want %d", name, n, c.fields)
		}
	}
	if got := Origin(From(t.Context(), &workspace.Origin{Trace: "nonsense"})); got != nil {
		t.Errorf("nonsense gives %v", got)
	}
	if Off().On() {
		t.Error("a tracer that is off is on")
	}
}

// TestTheGuideListsTheSpans checks both languages.
func TestTheGuideListsTheSpans(t *testing.T) {
	for _, guide := range []string{"logs.md", "logs.ko.md"} {
		text, err := os.ReadFile("../../caddymodule/docs/" + guide)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{Hold, Wake, Answer, Operation, Action, Backend, Job} {
			if family, ok := strings.CutSuffix(name, " "); ok {
				name = family + " …"
			}
			if !strings.Contains(string(text), "| `"+name+"` |") {
				t.Errorf("%s does not list the span %q", guide, name)
			}
		}
	}
}
