package main

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// maxRSS is what the job may take whatever the size of the home (SPEC 7).
const maxRSS = 128 << 20

// BenchmarkJob measures both directions on data that does not compress, as a
// process of its own, and fails when memory is not bounded.
func BenchmarkJob(b *testing.B) {
	const size = 300 << 20
	bench, from := newBench(b), home(b, size)
	to := b.TempDir()
	measure := func(job, volume string, after func()) {
		b.Run(job, func(b *testing.B) {
			b.SetBytes(size)
			var peak int64
			var cpu time.Duration
			for b.Loop() {
				cmd := bench.command(job, volume)
				if _, err := cmd.Output(); err != nil {
					b.Fatal(err)
				}
				peak = max(peak, rss(cmd))
				cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
				b.StopTimer()
				after()
				b.StartTimer()
			}
			b.ReportMetric(float64(peak)/(1<<20), "peak_rss_MiB")
			b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu_s/op")
			if peak > maxRSS {
				b.Errorf("peak memory %d MiB", peak>>20)
			}
		})
	}
	measure("archive", from, func() { bench.remove(meta) })
	bench.ok("archive", from)
	measure("restore", to, func() {})
}

// rss is the most memory that an ended process had.
func rss(cmd *exec.Cmd) int64 {
	return cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
}
