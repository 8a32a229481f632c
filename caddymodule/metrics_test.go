package codehub

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/coordinator/store"
)

func TestMetricsOfTheArchives(t *testing.T) {
	var health store.ArchiveHealth
	known := false
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(archiveMetrics{func() (store.ArchiveHealth, bool) { return health, known }}); err != nil {
		t.Fatal(err)
	}
	values := func() map[string]float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := make(map[string]float64)
		for _, f := range families {
			out[f.GetName()] = f.GetMetric()[0].GetGauge().GetValue()
		}
		return out
	}
	if got := values(); len(got) != 0 {
		t.Errorf("a process that does not lead tells %v", got)
	}
	health, known = store.ArchiveHealth{Current: 7, Damaged: 2, Unverified: 3, Oldest: time.Minute}, true
	got := values()
	for name, want := range map[string]float64{"codehub_archives": 7, "codehub_archives_damaged": 2, "codehub_archives_unverified": 3,
		"codehub_archive_oldest_verification_seconds": 60} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}
