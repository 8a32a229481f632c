package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// S3 counts requests to the object store. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type S3 struct {
	requests       series[prometheus.Counter]
	took           series[prometheus.Observer]
	sent, received prometheus.Counter
}

func newS3(m *Metrics) *S3 {
	bytes := counters(m, "codehub_s3_bytes_total")
	return &S3{counters(m, "codehub_s3_requests_total"), histograms(m, "codehub_s3_request_duration_seconds"), bytes.of("sent"), bytes.of("received")}
}

// Requested counts an attempt under the name that the operation has in the S3 API. status is the status of the answer,
// or 0 if there was no answer.
func (s *S3) Requested(operation string, status int, took time.Duration) {
	if s == nil {
		return
	}
	outcome := "no_answer"
	switch {
	case status == http.StatusNotFound:
		outcome = "not_found"
	case status >= 500:
		outcome = "server_error"
	case status >= 400:
		outcome = "client_error"
	case status > 0:
		outcome = "succeeded"
	}
	s.requests.of(operation, outcome).Inc()
	s.took.of(operation).Observe(took.Seconds())
}

// Sent counts bytes of request bodies.
func (s *S3) Sent(n int) {
	if s != nil && n > 0 {
		s.sent.Add(float64(n))
	}
}

// Received counts bytes of response bodies.
func (s *S3) Received(n int) {
	if s != nil && n > 0 {
		s.received.Add(float64(n))
	}
}

// Archives counts operations on whole archives. Its methods are safe for concurrent use, and do nothing on a nil
// receiver.
type Archives struct {
	collected, read series[prometheus.Counter]
	uploads, bytes  prometheus.Counter
}

func newArchives(m *Metrics) *Archives {
	return &Archives{
		collected: counters(m, "codehub_gc_archives_total"), uploads: counters(m, "codehub_gc_aborted_uploads_total").all[0],
		read: counters(m, "codehub_scrub_archives_total"), bytes: counters(m, "codehub_scrub_bytes_total").all[0],
	}
}

// Collected counts the results of a cycle of the collector.
func (a *Archives) Collected(deleted, spared, failed, uploads int) {
	if a == nil {
		return
	}
	a.collected.of("deleted").Add(float64(deleted))
	a.collected.of("spared").Add(float64(spared))
	a.collected.of("failed").Add(float64(failed))
	a.uploads.Add(float64(uploads))
}

// ReadBack counts an archive that was read back, with the result "whole", "damaged", "missing" or "unreadable".
func (a *Archives) ReadBack(result string, size int64) {
	if a == nil {
		return
	}
	a.read.of(result).Inc()
	a.bytes.Add(float64(max(size, 0)))
}
