package coordinator

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/leader"
)

func TestOptionsReportEverythingAtOnce(t *testing.T) {
	err := Options{SessionTTL: time.Second, Shards: leader.MaxShards + 1}.Validate()
	if err == nil {
		t.Fatal("empty options pass")
	}
	for _, want := range []string{"database", "redis", "session_ttl", "bucket", "shards: 65"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}

func TestSettingsReportEverythingAtOnce(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Fatalf("the defaults are wrong: %v", err)
	}
	s := DefaultSettings()
	s.Leader.RetryInterval, s.TTL.Standby, s.Limits.PerUser, s.Reconcile.MaxConcurrent = 0, -time.Second, 0, 0
	s.Reconcile.Timeouts = nil
	err := s.Validate()
	for _, want := range []string{"retry_interval", "ttl standby", "max_running_per_user", "max_concurrent", "timeouts starting"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}

// TestJobsReachALocalStore: a store on the loopback interface is out of reach for
// a container with a network of its own.
func TestJobsReachALocalStore(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://127.0.0.1:9000": "host", "http://localhost:9000": "host", "http://[::1]:9000": "host",
		"https://s3.example.com": "", "": "", "http://10.0.0.1:9000": "",
	} {
		var o Options
		o.Archive.Endpoint = endpoint
		if got := o.withDefaults().Docker.JobNetwork; got != want {
			t.Errorf("store at %q: job network %q, want %q", endpoint, got, want)
		}
		o.Archive.JobEndpoint = "http://host.docker.internal:9000"
		if got := o.withDefaults().Docker; got.JobNetwork != "" || got.Store != o.Archive.JobEndpoint {
			t.Errorf("store at %q with an address for jobs: job network %q, store %q", endpoint, got.JobNetwork, got.Store)
		}
	}
}

// TestExplanationsKnowTheSettings: every delay that an explanation names is a setting.
func TestExplanationsKnowTheSettings(t *testing.T) {
	s := DefaultSettings()
	s.TTL.Standby, s.TTL.Archive, s.TTL.Interval, s.GC.UndeleteFor = 1, 2, 3, 4
	s.GC.Delay = 1
	s.Reconcile.MaxRetry, s.Reconcile.WaitLimit, s.TTL.Doze = 5, 6, 7
	d := s.Delays()
	if d.Standby != 1 || d.Archive != 2 || d.TTLInterval != 3 || d.KeepDeleted != 4 || d.MaxRetry != 5 || d.WaitLimit != 6 || d.Doze != 7 || len(d.Timeouts) == 0 {
		t.Errorf("explanations get %+v", d)
	}
}
