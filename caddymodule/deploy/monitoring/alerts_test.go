package monitoring_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
)

const rulesFile = "../chart/files/alerts.yaml"

// alerts returns the alerts by name.
func alerts(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(rulesFile, false, model.UTF8Validation, expressions, slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	all := make(map[string]rulefmt.Rule)
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" {
				t.Errorf("%s: %+v is no alert", rulesFile, r)
			}
			all[r.Alert] = r
		}
	}
	return all
}

// TestAlertsAskForWhatThereIs checks that every rule uses existing metrics, labels and values, and has a runbook.
func TestAlertsAskForWhatThereIs(t *testing.T) {
	metrics := table(t)
	for name, r := range alerts(t) {
		check(t, metrics, r.Expr)
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has the severity %q", name, s)
		}
		if r.Annotations["summary"] == "" || r.For == 0 {
			t.Errorf("%s has no summary, or fires at once", name)
		}
		_, anchor, _ := strings.Cut(r.Annotations["runbook_url"], "caddymodule/docs/monitoring.md#")
		if anchor != strings.ToLower(name) {
			t.Errorf("%s has the runbook %q", name, r.Annotations["runbook_url"])
		}
		for _, guide := range []string{"monitoring.md", "monitoring.ko.md"} {
			text, err := os.ReadFile("../../docs/" + guide)
			if err != nil || !strings.Contains(string(text), "\n### "+name+"\n") {
				t.Errorf("%s has no section about %s, %v", guide, name, err)
			}
		}
	}
}

// cases are series for which an alert fires eventually, and series for which it never does.
var cases = map[string]struct{ fires, also, quiet []string }{
	"CodeHubDown": {
		fires: []string{`up{job="codehub",instance="a"} 1x30 0x30`, `codehub_build_info{job="codehub",instance="a",version="0.1.0"} 1x30`,
			`up{job="codehub",instance="b"} 1x60`, `codehub_build_info{job="codehub",instance="b",version="0.1.0"} 1x60`},
		// The alert must not fire for a restart with another version, for a target that no longer exists, or for
		// another program that is down.
		quiet: []string{`up{job="codehub",instance="a"} 1x30 0x1 1x30`, `codehub_build_info{job="codehub",instance="a",version="0.1.0"} 1x30`,
			`codehub_build_info{job="codehub",instance="a",version="0.2.0"} _x32 1x30`,
			`up{job="codehub",instance="b"} 1x30`, `codehub_build_info{job="codehub",instance="b",version="0.1.0"} 1x30`,
			`up{job="node",instance="a"} 0x60`},
	},
	"CodeHubNoLeader": {
		fires: []string{`codehub_shards{pod="a"} 2x60`, `codehub_shards{pod="b"} 2x60`, `codehub_shards_led{pod="a"} 1x60`, `codehub_shards_led{pod="b"} 0x60`},
		quiet: []string{`codehub_shards{pod="a"} 2x60`, `codehub_shards{pod="b"} 2x60`, `codehub_shards_led{pod="a"} 1x60`, `codehub_shards_led{pod="b"} 1x60`},
	},
	"CodeHubLeaderChangesOften": {
		fires: []string{`codehub_leader_terms_total{pod="a"} 1+1x60`, `codehub_shards 1x60`},
		quiet: []string{`codehub_leader_terms_total{pod="a"} 0x20 1x40`, `codehub_leader_terms_total{pod="b"} 1x60`, `codehub_shards 1x60`},
	},
	"CodeHubRoutesUnconfirmed": {
		fires: []string{`codehub_routes_confirmed{pod="a"} 1x60`, `codehub_routes_confirmed{pod="b"} 1x30 0x30`},
		quiet: []string{`codehub_routes_confirmed{pod="a"} 1x60`, `codehub_routes_confirmed{pod="b"} 1x60`},
	},
	"CodeHubSensorDown": {
		fires: []string{`codehub_sensor_errors_total{sensor="containers"} 0x10 0+4x50`, `codehub_sensor_last_answer_timestamp_seconds{sensor="containers"} 600x60`},
		quiet: []string{`codehub_sensor_errors_total{sensor="containers"} 0+4x60`, `codehub_sensor_last_answer_timestamp_seconds{sensor="containers"} 0+60x60`,
			// The last answer that a former leader got is old, but it has no new errors.
			`codehub_sensor_errors_total{sensor="volumes"} 9x60`, `codehub_sensor_last_answer_timestamp_seconds{sensor="volumes"} 600x60`},
	},
	"CodeHubWakesFail": {
		fires: []string{`codehub_wakes_total{client="navigation",from="STANDBY",outcome="failed"} 0+1x60`, `codehub_wakes_total{client="navigation",from="STANDBY",outcome="ready"} 0+5x60`},
		quiet: []string{`codehub_wakes_total{client="navigation",from="STANDBY",outcome="failed"} 0+1x60`, `codehub_wakes_total{client="navigation",from="STANDBY",outcome="ready"} 0+20x60`},
	},
	"CodeHubWakesSlow": {
		fires: []string{`codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="15"} 0+1x60`, `codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="30"} 0+2x60`,
			`codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="+Inf"} 0+2x60`},
		quiet: []string{`codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="2"} 0+2x60`, `codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="15"} 0+2x60`,
			`codehub_wake_duration_seconds_bucket{client="program",from="STANDBY",le="+Inf"} 0+2x60`,
			// Restores may take longer.
			`codehub_wake_duration_seconds_bucket{client="program",from="ARCHIVED",le="15"} 0x60`, `codehub_wake_duration_seconds_bucket{client="program",from="ARCHIVED",le="+Inf"} 0+2x60`},
	},
	"CodeHubHoldNearlyFull": {
		fires: []string{`codehub_gateway_held_requests{pod="a"} 900x60`, `codehub_gateway_held_requests_limit{pod="a"} 1000x60`},
		quiet: []string{`codehub_gateway_held_requests{pod="a"} 700x60`, `codehub_gateway_held_requests_limit{pod="a"} 1000x60`,
			`codehub_gateway_held_requests{pod="none"} 0x60`, `codehub_gateway_held_requests_limit{pod="none"} 0x60`},
	},
	"CodeHubOperationsFail": {
		fires: []string{`codehub_operation_failures_total{operation="STARTING",reason="Timeout"} 0+1x60`},
		quiet: []string{`codehub_operation_failures_total{operation="STARTING",reason="Timeout"} 0x30 1x30`},
	},
	"CodeHubWorkspacesInError": {
		fires: []string{`codehub_workspaces_in_error{reason="DataLost"} 0x20 1x40`},
		quiet: []string{`codehub_workspaces_in_error{reason="DataLost"} 0x60`, `codehub_workspaces_in_error{reason="Timeout"} 3x60`},
	},
	"CodeHubWorkspacesWait": {
		fires: []string{`codehub_workspaces_waiting{reason="StoreAway"} 2x60`},
		quiet: []string{`codehub_workspaces_waiting{reason="StoreAway"} 0x20 2x10 0x30`, `codehub_workspaces_waiting{reason="PullingImage"} 2x60`},
	},
	"CodeHubWrongSleeps": {
		fires: []string{`codehub_wrong_sleeps_total 0+1x60`, `codehub_desired_state_changes_total{desired_state="STANDBY",cause="idle"} 0+2x60`},
		quiet: []string{`codehub_wrong_sleeps_total 0+1x60`, `codehub_desired_state_changes_total{desired_state="STANDBY",cause="idle"} 0+20x60`},
	},
	"CodeHubJobQueueLong": {
		fires: []string{`codehub_storage_jobs{state="waiting"} 30x60`, `codehub_storage_jobs_limit{pod="a"} 10x60`, `codehub_storage_jobs_limit{pod="b"} 10x60`},
		quiet: []string{`codehub_storage_jobs{state="waiting"} 30x10 5x50`, `codehub_storage_jobs{state="running"} 99x60`, `codehub_storage_jobs_limit 10x60`},
	},
	"CodeHubArchivesDamaged": {
		fires: []string{`codehub_archives_damaged 0x30 1x30`},
		quiet: []string{`codehub_archives_damaged 0x60`},
	},
	"CodeHubArchivesUnread": {
		fires: []string{`codehub_archive_oldest_verification_seconds 9000000x120`},
		quiet: []string{`codehub_archive_oldest_verification_seconds 600000x120`},
	},
	"CodeHubObjectStoreFails": {
		fires: []string{`codehub_s3_requests_total{operation="GetObject",outcome="no_answer"} 0+1x60`, `codehub_s3_requests_total{operation="GetObject",outcome="succeeded"} 0+5x60`},
		quiet: []string{`codehub_s3_requests_total{operation="HeadObject",outcome="not_found"} 0+9x60`, `codehub_s3_requests_total{operation="GetObject",outcome="succeeded"} 0+5x60`,
			`codehub_s3_requests_total{operation="GetObject",outcome="server_error"} 0+1x60`},
	},
	"CodeHubCollectorDoesNotFit": {
		fires: []string{`codehub_gc_last_cycle_archives{state="unknown"} 3x60`},
		quiet: []string{`codehub_gc_last_cycle_archives{state="unknown"} 0x60`, `codehub_gc_last_cycle_archives{state="orphaned"} 9x60`},
	},
	"CodeHubCycleFails": {
		fires: []string{`codehub_cycle_errors_total{component="ttl"} 0+1x60`, `codehub_cycle_last_success_timestamp_seconds{component="ttl"} 60x60`},
		// The collector runs only every four hours.
		also: []string{`codehub_cycle_errors_total{component="gc"} 0x5 1x50 2x65`, `codehub_cycle_last_success_timestamp_seconds{component="gc"} 0x120`},
		quiet: []string{`codehub_cycle_errors_total{component="ttl"} 0+1x60`, `codehub_cycle_last_success_timestamp_seconds{component="ttl"} 0+60x60`,
			`codehub_cycle_errors_total{component="gc"} 0x5 1x115`, `codehub_cycle_last_success_timestamp_seconds{component="gc"} 0x120`},
	},
	"CodeHubInternalFailures": {
		fires: []string{`codehub_internal_failures_total{scope="component"} 0x30 1x30`},
		also:  []string{`codehub_internal_failures_total{scope="workspace"} 3x60`, `codehub_workspaces_set_aside 0x20 1x40`},
		quiet: []string{`codehub_internal_failures_total{scope="component"} 3x60`, `codehub_workspaces_set_aside 0x60`},
	},
	"CodeHubDiskFull": {
		fires: []string{`codehub_homes_disk_mark_passed{mark="stop_at"} 0x30 1x30`},
		quiet: []string{`codehub_homes_disk_mark_passed{mark="stop_at"} 0x60`, `codehub_homes_disk_mark_passed{mark="archive_at"} 1x60`},
	},
	"CodeHubDatabasePoolShort": {
		fires: []string{`codehub_database_acquire_wait_seconds_total 0+6x60`, `codehub_database_acquires_total 0+60x60`},
		quiet: []string{`codehub_database_acquire_wait_seconds_total 0+0.06x60`, `codehub_database_acquires_total 0+60x60`},
	},
}

// TestAlertsFire checks that every alert fires in the cases where it should, after the time that it states, and in no
// other case.
func TestAlertsFire(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 1e6, Timeout: time.Minute, LookbackDelta: 5 * time.Minute, Parser: expressions,
	})
	all := alerts(t)
	for name := range cases {
		if _, ok := all[name]; !ok {
			t.Errorf("there is no alert %s", name)
		}
	}
	for name, r := range all {
		c, ok := cases[name]
		if !ok {
			t.Errorf("%s is not tested", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			if !fires(t, engine, r, c.fires) {
				t.Error("it does not fire")
			}
			if c.also != nil && !fires(t, engine, r, c.also) {
				t.Error("it does not fire in the other case")
			}
			if fires(t, engine, r, c.quiet) {
				t.Error("it fires where nothing is wrong")
			}
			if fires(t, engine, r, nil) {
				t.Error("it fires without any series")
			}
		})
	}
}

// fires evaluates a rule every minute, as Prometheus does, and reports whether the rule fires. It fires if one of its
// series exists without a break for the duration of the rule's `for`.
func fires(t *testing.T, engine *promql.Engine, r rulefmt.Rule, lines []string) bool {
	t.Helper()
	var s series
	s.parse(t, lines...)
	since := make(map[uint64]time.Duration)
	for at := time.Duration(0); at <= 2*time.Hour; at += time.Minute {
		active := make(map[uint64]time.Duration)
		for _, found := range s.at(t, engine, r.Expr, at) {
			key := found.Metric.Hash()
			began, before := since[key]
			if !before {
				began = at
			}
			if active[key] = began; at-began >= time.Duration(r.For) {
				return true
			}
		}
		since = active
	}
	return false
}
