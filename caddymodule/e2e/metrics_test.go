package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/wait"
)

// scrape contains the values of one reading of the metrics page, by series, such as name{label="value"}.
type scrape map[string]float64

// scrape reads the metrics page of Caddy's administration endpoint.
func (in *installation) scrape(t testing.TB) scrape {
	t.Helper()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", in.adminSocket)
	}}}
	res, err := c.Get("http://localhost/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body := text(t, res)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("/metrics: %s %s", res.Status, body)
	}
	s := make(scrape)
	for line := range strings.Lines(body) {
		if !strings.HasPrefix(line, "codehub_") {
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if s[series], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
	}
	return s
}

// sum adds the series of a metric that have all of the labels.
func (s scrape) sum(name string, labels ...string) (sum float64) {
	for series, value := range s {
		of, rest, _ := strings.Cut(series, "{")
		if of != name {
			continue
		}
		has := true
		for _, l := range labels {
			has = has && strings.Contains(rest, l)
		}
		if has {
			sum += value
		}
	}
	return sum
}

// scrapeAll adds the metrics of several processes.
func scrapeAll(t testing.TB, processes []*installation) scrape {
	t.Helper()
	all := make(scrape)
	for _, in := range processes {
		for series, value := range in.scrape(t) {
			all[series] += value
		}
	}
	return all
}

// isID matches the id of a workspace or a user.
var isID = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-`)

// metricsTellLives checks the metrics of an installation's processes. lives is how many workspaces have gone through
// testLifecycle before, one after the other. Each of them ran, slept, woke, and was archived, restored and deleted.
func metricsTellLives(t *testing.T, lives float64, processes ...*installation) {
	t.Helper()
	in := processes[0]
	atLeast := map[string]struct {
		name   string
		labels []string
		want   float64
	}{
		"wake-ups by a person":            {"codehub_wakes_total", []string{`client="navigation"`, `outcome="ready"`}, lives},
		"wake-ups by a program":           {"codehub_wakes_total", []string{`client="program"`, `outcome="ready"`}, lives},
		"times of wake-ups":               {"codehub_wake_duration_seconds_count", nil, 2 * lives},
		"times of restores":               {"codehub_wake_stage_duration_seconds_count", []string{`client="program"`, `stage="restoring"`}, lives},
		"times of starts":                 {"codehub_wake_stage_duration_seconds_count", []string{`stage="starting"`}, 2 * lives},
		"times of first answers":          {"codehub_wake_stage_duration_seconds_count", []string{`stage="answering"`}, 2 * lives},
		"held requests":                   {"codehub_gateway_hold_duration_seconds_count", []string{`client="program"`}, lives},
		"wake pages":                      {"codehub_gateway_requests_total", []string{`client="navigation"`, `outcome="wake_page"`}, lives},
		"proxied requests":                {"codehub_gateway_requests_total", []string{`client="program"`, `outcome="proxied"`}, lives},
		"subresources that do not wake":   {"codehub_gateway_refusals_total", []string{`client="subresource"`, `reason="asleep"`}, lives},
		"use by navigations and messages": {"codehub_activity_signals_total", nil, lives},
		"sleeps over the API":             {"codehub_desired_state_changes_total", []string{`desired_state="STANDBY"`, `cause="api"`}, lives},
		"wake-ups by the gateway":         {"codehub_desired_state_changes_total", []string{`desired_state="RUNNING"`, `cause="gateway"`}, 2 * lives},
		"archives":                        {"codehub_operation_duration_seconds_count", []string{`operation="ARCHIVING"`, `outcome="succeeded"`}, lives},
		"restores":                        {"codehub_operation_duration_seconds_count", []string{`operation="RESTORING"`, `outcome="succeeded"`}, lives},
		"starts of containers":            {"codehub_actuator_call_duration_seconds_count", []string{`action="start"`}, 3 * lives},
		"full looks of the controller":    {"codehub_reconcile_duration_seconds_count", []string{`scope="everything"`}, 1},
		"answers of the engine":           {"codehub_sensor_last_answer_timestamp_seconds", []string{`sensor="containers"`}, 1},
		"answers of the object store":     {"codehub_sensor_last_answer_timestamp_seconds", []string{`sensor="object_store"`}, 1},
		"requests to the object store":    {"codehub_s3_requests_total", []string{`operation="HeadObject"`, `outcome="succeeded"`}, lives},
		"terms":                           {"codehub_leader_terms_total", nil, 1},
		"the epoch":                       {"codehub_leader_epoch", []string{`shard="0"`}, 1},
		"shards that are led":             {"codehub_shards_led", nil, 1},
		"confirmed routes":                {"codehub_routes_confirmed", nil, 1},
		"connections to PostgreSQL":       {"codehub_database_acquires_total", nil, 1},
		"counts of all workspaces":        {"codehub_cycle_duration_seconds_count", []string{`component="census"`}, 1},
		"writes of activity":              {"codehub_cycle_last_success_timestamp_seconds", []string{`component="activity"`}, 1},
	}
	wait.For(t, "the metrics tell what has happened", func() error {
		s := scrapeAll(t, processes)
		var errs []error
		for what, c := range atLeast {
			if got := s.sum(c.name, c.labels...); got < c.want {
				errs = append(errs, fmt.Errorf("%s: %s%q is %v, want at least %v", what, c.name, c.labels, got, c.want))
			}
		}
		if n := s.sum("codehub_workspaces", `phase="RUNNING"`); n != 0 {
			errs = append(errs, fmt.Errorf("%v workspaces run", n))
		}
		for _, name := range []string{"codehub_gateway_held_requests", "codehub_wakes_in_progress", "codehub_gateway_websockets"} {
			if n := s.sum(name); n != 0 {
				errs = append(errs, fmt.Errorf("%s is %v at the end", name, n))
			}
		}
		return errors.Join(errs...)
	})
	s := in.scrape(t)
	text, err := os.ReadFile("../deploy/monitoring/testdata/metrics.json")
	if err != nil {
		t.Fatal(err)
	}
	var table []metrics.Metric
	if err := json.Unmarshal(text, &table); err != nil || len(table) == 0 {
		t.Fatalf("the table has %d metrics: %v", len(table), err)
	}
	for _, m := range table {
		name := m.Name
		if m.Kind == metrics.Histogram {
			name += "_count"
		}
		told := false
		for series := range s {
			of, _, _ := strings.Cut(series, "{")
			told = told || of == name
		}
		// The leader does not know everything yet, such as the findings of the collector's first cycle.
		if !told && !m.Leader {
			t.Errorf("the page does not have %s", m.Name)
		}
	}
	for series := range s {
		if isID.MatchString(series) {
			t.Errorf("a label is an id: %s", series)
		}
	}
	in.reloadWith(t, "images {\nterminal {\nreference {env.CODEHUB_WORKSPACE_IMAGE}\n}\n}")
	again := in.scrape(t)
	for _, name := range []string{"codehub_wakes_total", "codehub_wake_duration_seconds_count", "codehub_gateway_requests_total", "codehub_leader_terms_total"} {
		if was, now := s.sum(name), again.sum(name); now < was || was == 0 {
			t.Errorf("a reload has reset %s from %v to %v", name, was, now)
		}
	}
}
