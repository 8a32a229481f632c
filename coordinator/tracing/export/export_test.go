package export

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/devenv/collector"
	"github.com/codehub/gateway/coordinator/wait"
)

func TestConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want bool
	}{
		"nothing":                 {nil, false},
		"an endpoint":             {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, true},
		"one for traces":          {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, true},
		"an exporter":             {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true},
		"none":                    {map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false},
		"the kit is switched off": {map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://x"}, false},
	} {
		if got := configured(func(key string) string { return c.env[key] }); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	tracer, err := New("n", func(string) string { return "" }, zap.NewNop())
	if err != nil || tracer.On() {
		t.Error(tracer, err)
	}
	tracer.Close()
	t.Setenv("OTEL_TRACES_EXPORTER", "nonsense")
	if _, err := New("n", func(string) string { return "nonsense" }, zap.NewNop()); err == nil {
		t.Error("an exporter that there is not is accepted")
	}
}

// TestACollectorThatIsAway: only spans are lost. Starting and ending spans does not wait for the collector, and the end
// of the process waits only briefly. The log reports the outage once, and its end.
func TestACollectorThatIsAway(t *testing.T) {
	to := collector.New(t)
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": to.URL, "OTEL_BSP_SCHEDULE_DELAY": "10", "OTEL_BSP_MAX_QUEUE_SIZE": "16",
		"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8", "OTEL_BSP_EXPORT_TIMEOUT": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "100",
	} {
		t.Setenv(name, value)
	}
	getenv := func(name string) string { return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": to.URL}[name] }
	core, logs := observer.New(zap.InfoLevel)
	tracer, err := New("n", getenv, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	to.Hang(true)
	began := time.Now()
	for range 10_000 {
		_, span := tracer.Start(context.Background(), "x")
		span.End()
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("10,000 spans took %s while the collector hangs", took)
	}
	const away, again = "traces cannot be sent to the collector; they are dropped until they can", "traces are sent to the collector again"
	wait.Until(t, "the outage is logged", func() bool { return logs.FilterMessage(away).Len() == 1 })
	to.Hang(false)
	wait.Until(t, "its end is logged", func() bool {
		_, span := tracer.Start(context.Background(), "y")
		span.End()
		return logs.FilterMessage(again).Len() == 1
	})
	if n := logs.Len(); n != 2 {
		t.Errorf("logged %v", logs.All())
	}
	wait.Until(t, "spans arrive", func() bool {
		spans := to.Spans()
		return len(spans) > 0 && spans[0].Process == "n"
	})
	to.Hang(true)
	_, span := tracer.Start(context.Background(), "z")
	span.End()
	began = time.Now()
	tracer.Close()
	if took := time.Since(began); took > closeTimeout+2*time.Second {
		t.Errorf("closing took %s while the collector hangs", took)
	}
}
