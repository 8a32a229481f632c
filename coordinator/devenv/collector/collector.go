// Package collector is a collector of traces for tests. It serves the trace service of the OpenTelemetry protocol
// over HTTP and keeps the spans. It owns them; it must not judge them.
package collector

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/protobuf/proto"
)

// Span is one span as it came.
type Span struct {
	Process, Name     string // Process is the attribute service.instance.id of its resource
	Trace, ID, Parent string // in hexadecimal; Parent is empty for a root
	Links             []string
	Start, End        time.Time
	Attributes        map[string]string // the texts among them
	Events            []string
}

// Collector keeps the spans that are sent to it. It is safe for concurrent use.
type Collector struct {
	URL string

	mu    sync.Mutex
	hangs chan struct{} // requests are held until it is closed; nil if they are answered
	spans map[string]Span
}

// New starts a collector for the length of the test.
func New(t testing.TB) *Collector {
	c := &Collector{spans: make(map[string]Span)}
	server := httptest.NewServer(c)
	c.URL = server.URL
	t.Cleanup(func() {
		c.Hang(false)
		server.Close()
	})
	return c
}

// Env returns the variables that make a program send its traces here, without delay.
func (c *Collector) Env() []string {
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + c.URL, "OTEL_BSP_SCHEDULE_DELAY=200"}
}

// Hang makes the collector accept requests and answer none, until Hang is called with false.
func (c *Collector) Hang(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hangs != nil {
		close(c.hangs)
		c.hangs = nil
	}
	if yes {
		c.hangs = make(chan struct{})
	}
}

// ServeHTTP implements the service.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	hangs := c.hangs
	c.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-r.Context().Done():
			return
		}
	}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unpacked
	}
	text, err := io.ReadAll(body)
	var request trace.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(text, &request)
	}
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/v1/traces" {
		http.Error(w, "no request to export traces", http.StatusBadRequest)
		return
	}
	c.add(&request)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func (c *Collector) add(request *trace.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range request.ResourceSpans {
		process := texts(resource.Resource.Attributes)["service.instance.id"]
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				span := Span{
					Process: process, Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId),
					Parent: hex.EncodeToString(s.ParentSpanId), Attributes: texts(s.Attributes),
					Start: time.Unix(0, int64(s.StartTimeUnixNano)), End: time.Unix(0, int64(s.EndTimeUnixNano)),
				}
				for _, l := range s.Links {
					span.Links = append(span.Links, hex.EncodeToString(l.SpanId))
				}
				for _, e := range s.Events {
					span.Events = append(span.Events, e.Name)
				}
				c.spans[span.ID] = span
			}
		}
	}
}

func texts(attributes []*common.KeyValue) map[string]string {
	found := make(map[string]string)
	for _, a := range attributes {
		found[a.Key] = a.Value.GetStringValue()
	}
	return found
}

// Spans returns the spans so far, in the order of their start.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.spans), func(a, b Span) int { return a.Start.Compare(b.Start) })
}
