// Package monitoring_test checks the chart's alert rules and dashboard against the table of metrics, with Prometheus'
// own parser and query engine.
package monitoring_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// expressions parses PromQL.
var expressions = parser.NewParser(parser.Options{})

// metric is a row of the table of metrics. A test of the product writes the table to a file.
type metric struct {
	Name, Type string
	Labels     []struct {
		Name   string
		Values []string
	}
}

// table returns the metrics, by the names that queries use for their series.
func table(t *testing.T) map[string]metric {
	t.Helper()
	text, err := os.ReadFile("testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var rows []metric
	if err := json.Unmarshal(text, &rows); err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]metric)
	for _, m := range rows {
		names := []string{m.Name}
		if m.Type == "histogram" {
			names = []string{m.Name + "_bucket", m.Name + "_count", m.Name + "_sum"}
		}
		for _, name := range names {
			metrics[name] = m
		}
	}
	return metrics
}

// scraped are the labels that Prometheus adds when it scrapes.
var scraped = []string{"instance", "job", "namespace", "pod", "service", "le"}

// check fails the test if an expression uses metrics, labels or values that no process exports.
func check(t *testing.T, metrics map[string]metric, text string) {
	t.Helper()
	expr, err := expressions.ParseExpr(text)
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	var used []metric
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if v.Name == "up" { // Prometheus writes it itself
			return nil
		}
		m, known := metrics[v.Name]
		if !known {
			t.Errorf("%s: there is no metric %s", text, v.Name)
			return nil
		}
		used = append(used, m)
		for _, matcher := range v.LabelMatchers {
			if matcher.Name == labels.MetricName || slices.Contains(scraped, matcher.Name) {
				continue
			}
			found := false
			for _, l := range m.Labels {
				found = found || l.Name == matcher.Name && slices.ContainsFunc(l.Values, matcher.Matches)
			}
			if !found {
				t.Errorf("%s: %s has no series with %s", text, v.Name, matcher)
			}
		}
		return nil
	})
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		a, ok := n.(*parser.AggregateExpr)
		if !ok {
			return nil
		}
		for _, by := range a.Grouping {
			if !slices.Contains(scraped, by) && !slices.ContainsFunc(used, func(m metric) bool {
				for _, l := range m.Labels {
					if l.Name == by {
						return true
					}
				}
				return false
			}) {
				t.Errorf("%s: no metric of it has the label %s", text, by)
			}
		}
		return nil
	})
}

// series are the samples of a test, one per minute.
type series []storage.Series

// parse adds series that are written as for promtool: a metric, followed by values such as 1+2x10.
func (s *series) parse(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		lset, values, err := expressions.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{int64(i) * time.Minute.Milliseconds(), v.Value})
			}
		}
		*s = append(*s, storage.NewListSeries(lset, samples))
	}
}

// at evaluates an expression at a time after the start.
func (s series) at(t *testing.T, engine *promql.Engine, expr string, at time.Duration) promql.Vector {
	t.Helper()
	query, err := engine.NewInstantQuery(t.Context(), s, nil, expr, time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(vector)
}

// Querier implements [storage.Queryable].
func (s series) Querier(_, _ int64) (storage.Querier, error) { return s, nil }

// Select implements [storage.Querier].
func (s series) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var found []storage.Series
	for _, one := range s {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(one.Labels().Get(m.Name)) }) {
			found = append(found, one)
		}
	}
	return &set{series: found}
}

// LabelValues implements [storage.Querier]. Queries do not use it.
func (series) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// LabelNames implements [storage.Querier]. Queries do not use it.
func (series) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Close implements [storage.Querier].
func (series) Close() error { return nil }

// set is a [storage.SeriesSet].
type set struct {
	series []storage.Series
	at     storage.Series
}

func (s *set) Next() bool {
	if len(s.series) == 0 {
		return false
	}
	s.at, s.series = s.series[0], s.series[1:]
	return true
}
func (s *set) At() storage.Series              { return s.at }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// sample is a [chunks.Sample].
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                    { return s.t }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.f }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
