package codehub

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/coordinator/store"
)

// archiveMetrics tells Caddy's metrics how well the current archives are. The process that
// leads tells it, and the others nothing: a sum over all processes counts nothing twice.
type archiveMetrics struct {
	health func() (h store.ArchiveHealth, known bool)
}

var (
	archivesTotal = prometheus.NewDesc("codehub_archives",
		"Workspaces that have an archive.", nil, nil)
	archivesDamaged = prometheus.NewDesc("codehub_archives_damaged",
		"Workspaces whose current archive is known to be damaged or missing.", nil, nil)
	archivesUnverified = prometheus.NewDesc("codehub_archives_unverified",
		"Workspaces whose current archive was never read back.", nil, nil)
	archiveOldest = prometheus.NewDesc("codehub_archive_oldest_verification_seconds",
		"Time since the oldest verification of a current archive, "+
			"or since an archive was made that was never verified.", nil, nil)
)

// Describe implements [prometheus.Collector].
func (archiveMetrics) Describe(c chan<- *prometheus.Desc) {
	c <- archivesTotal
	c <- archivesDamaged
	c <- archivesUnverified
	c <- archiveOldest
}

// Collect implements [prometheus.Collector].
func (m archiveMetrics) Collect(c chan<- prometheus.Metric) {
	h, known := m.health()
	if !known {
		return
	}
	gauge := func(d *prometheus.Desc, v float64) { c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	gauge(archivesTotal, float64(h.Current))
	gauge(archivesDamaged, float64(h.Damaged))
	gauge(archivesUnverified, float64(h.Unverified))
	gauge(archiveOldest, h.Oldest.Seconds())
}
