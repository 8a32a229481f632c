// Package metrics defines what the product exports to Prometheus (SPEC 5). It owns the one table of all
// metrics, with their names, labels and meaning, and the counters. The counters live as long as the coordinator: a
// reload of the configuration does not reset them.
//
// Other packages record through the small types here, such as [Gateway] and [Reconcile]. A nil one records nothing.
// Recording is an atomic addition to a series that was created at the start: it looks nothing up by name and allocates
// nothing. Values that other packages hold anyway, such as the length of a queue, are read at each scrape ([State]).
//
// Labels have the values that the table lists, and never the id of a workspace or a user. Values that only the leader
// knows are exported only by the leader, so that a sum over all processes counts nothing twice.
package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is the type of a metric, as Prometheus names it.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table.
type Metric struct {
	// Name ends with the unit, and for a counter with "_total".
	Name string `json:"name"`
	Kind Kind   `json:"type"`
	// Unit is a base unit of Prometheus; empty for plain counts.
	Unit   string  `json:"unit,omitempty"`
	Labels []Label `json:"labels,omitempty"`
	// Leader means that only the leader exports the metric or, if it is a metric of a shard, only that shard's leader.
	Leader bool `json:"leader,omitempty"`
	// Help describes the metric in one sentence.
	Help string `json:"help"`

	buckets []float64
	// read exports the values of a metric that is read at each scrape. It is nil for a metric that is recorded.
	read func(*State, tell)
}

// tell exports a value with its labels' values.
type tell = func(value float64, labels ...string)

// Label is a label with all its possible values.
type Label struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// other is the label value for anything that this release does not know.
const other = "other"

// index returns the index of a value. For an unknown value it returns the last index, which is that of [other].
func (l Label) index(value string) int {
	if i := slices.Index(l.Values, value); i >= 0 {
		return i
	}
	return len(l.Values) - 1
}

// names returns the names of the labels.
func (m *Metric) names() []string {
	names := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		names[i] = l.Name
	}
	return names
}

// Metrics are the counters of one coordinator. It implements [prometheus.Collector], and may be registered with
// the registries of several configurations.
type Metrics struct {
	Gateway   *Gateway
	Wakes     *Wakes
	Activity  *Activity
	Service   *Service
	Leader    *Leader
	Reconcile *Reconcile
	Cycles    *Cycles
	S3        *S3
	Archives  *Archives
	Events    *Events

	state     func() *State
	recorded  map[string]prometheus.Collector // by name, without what is read at a scrape
	described [len(table)]*prometheus.Desc
}

// New returns metrics that are all zero. state is called at each scrape; it must not perform I/O.
func New(state func() *State) *Metrics {
	m := &Metrics{state: state, recorded: make(map[string]prometheus.Collector)}
	for i := range table {
		m.described[i] = prometheus.NewDesc(table[i].Name, table[i].Help, table[i].names(), nil)
	}
	m.Gateway, m.Wakes, m.Activity, m.Events = newGateway(m), newWakes(m), newActivity(m), newEvents(m)
	m.Service, m.Leader, m.Reconcile, m.Cycles = newService(m), newLeader(m), newReconcile(m), newCycles(m)
	m.S3, m.Archives = newS3(m), newArchives(m)
	return m
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, d := range m.described {
		c <- d
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	st := m.state()
	for i := range table {
		row := &table[i]
		if row.read == nil {
			m.recorded[row.Name].Collect(c)
			continue
		}
		if row.Leader && st.Leader == nil {
			continue
		}
		kind := prometheus.GaugeValue
		if row.Kind == Counter {
			kind = prometheus.CounterValue
		}
		row.read(st, func(value float64, labels ...string) {
			c <- prometheus.MustNewConstMetric(m.described[i], kind, value, labels...)
		})
	}
}

// series holds the series of one recorded metric, in the order of the values of its labels. The last label varies
// fastest.
type series[S any] struct {
	labels []Label
	all    []S
}

// at returns the series at these indexes of the labels' values.
func (s *series[S]) at(places ...int) S {
	i := 0
	for n, place := range places {
		i = i*len(s.labels[n].Values) + place
	}
	return s.all[i]
}

// of returns the series with these values.
func (s *series[S]) of(values ...string) S {
	i := 0
	for n, value := range values {
		i = i*len(s.labels[n].Values) + s.labels[n].index(value)
	}
	return s.all[i]
}

// vector is client_golang's type of a metric with labels.
type vector[S any] interface {
	prometheus.Collector
	WithLabelValues(values ...string) S
}

// record creates all series of a metric, so that each is exported from the start, as 0.
func record[S any](m *Metrics, row *Metric, v vector[S]) series[S] {
	m.recorded[row.Name] = v
	s := series[S]{labels: row.Labels}
	var add func(values []string)
	add = func(values []string) {
		if len(values) == len(s.labels) {
			s.all = append(s.all, v.WithLabelValues(values...))
			return
		}
		for _, value := range s.labels[len(values)].Values {
			add(append(slices.Clip(values), value))
		}
	}
	add(nil)
	return s
}

// rowOf returns the row of a recorded metric. If a name is not in the table, the program panics at its start.
func rowOf(name string) *Metric {
	return &table[slices.IndexFunc(table[:], func(m Metric) bool { return m.Name == name })]
}

func counters(m *Metrics, name string) series[prometheus.Counter] {
	row := rowOf(name)
	return record(m, row, prometheus.NewCounterVec(
		prometheus.CounterOpts{Name: row.Name, Help: row.Help}, row.names()))
}

func gauges(m *Metrics, name string) series[prometheus.Gauge] {
	row := rowOf(name)
	return record(m, row, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: row.Name, Help: row.Help}, row.names()))
}

func histograms(m *Metrics, name string) series[prometheus.Observer] {
	row := rowOf(name)
	return record(m, row, prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: row.Name, Help: row.Help, Buckets: row.buckets}, row.names()))
}
