package processtest

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// idleBeside lists numbers of archived workspaces. BenchmarkIdle measures an idle process once with each number.
var idleBeside = flag.String("idle-beside", "0,1000,100000", "measure an idle process beside these numbers of archived workspaces")

const (
	// startsFor is the time after its start during which a process does not count as idle. For its first minute a feed
	// reads the last 500 changes again at every poll (package changes).
	startsFor = 90 * time.Second
	// idleFor is how long BenchmarkIdle watches an idle process.
	idleFor = 40 * time.Second
	// actions is how often the time from a commit to the actuator is measured.
	actions = 15
)

// BenchmarkIdle measures the cost of an idle process that leads and serves while the database has more and more
// archived workspaces. `make bench-reconcile` runs it.
func BenchmarkIdle(b *testing.B) {
	for text := range strings.SplitSeq(*idleBeside, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		in := install(b)
		in.addArchived(b, n)
		p := in.process(b, "idle", func(c *processConfig) { c.Relaxed = true })
		p.await(b, "leads")
		pause(startsFor)
		rows, cpu, began := in.rows(b), p.cpu(b), time.Now()
		pause(idleFor)
		took := time.Since(began).Seconds()
		after := in.rows(b)
		fmt.Printf("figure reconcile_idle_%d_rows_read_per_s %.1f rows/s\n", n, float64(after.read-rows.read)/took)
		fmt.Printf("figure reconcile_idle_%d_rows_written_per_s %.1f rows/s\n", n, float64(after.written-rows.written)/took)
		fmt.Printf("figure reconcile_idle_%d_cpu_ms_per_s %.2f ms/s\n", n, (p.cpu(b)-cpu).Seconds()*1000/took)
		fmt.Printf("figure reconcile_idle_%d_rss_mib %.1f MiB\n", n, p.rss(b))
		p.signal(b, syscall.SIGKILL)
	}
	b.ReportMetric(0, "ns/op")
}

// pause waits for time to pass: the measurement of an idle process has no condition to wait for.
func pause(d time.Duration) { <-time.After(d) }

// addArchived adds converged archived workspaces.
func (in *installation) addArchived(t testing.TB, n int) {
	t.Helper()
	storetest.Exec(t, in.store, `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state,
			archive_key, conditions)
		SELECT $1, 'archived ' || i, 'docker', 'docker', 'home', 'ARCHIVED', 'ARCHIVED', 'key ' || i,
			'{"storage.archive_ready": {"status": "True", "reason": "ArchivePresent", "last_transition_time": "2026-01-01T00:00:00Z"}}'
		FROM generate_series(1, $2::int) AS i`, in.owner.UserID, n)
	storetest.Exec(t, in.store, `VACUUM ANALYZE workspaces`)
}

// rowCounts counts the rows that the database has read and written for the installation's tables.
type rowCounts struct{ read, written int64 }

func (in *installation) rows(t testing.TB) rowCounts {
	t.Helper()
	// PostgreSQL's server processes report their counts with a delay. The queries below make the process of this
	// session report its own.
	pause(1500 * time.Millisecond)
	return rowCounts{
		storetest.Value[int64](t, in.store, `SELECT (sum(seq_tup_read) + sum(idx_tup_fetch))::bigint FROM pg_stat_user_tables`),
		storetest.Value[int64](t, in.store, `SELECT (sum(n_tup_ins) + sum(n_tup_upd) + sum(n_tup_del))::bigint FROM pg_stat_user_tables`),
	}
}

// cpu returns the processor time of the process, to the clock tick.
func (p *process) cpu(t testing.TB) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] { // utime and stime, the 14th and 15th
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// rss returns the resident memory of the process in MiB.
func (p *process) rss(t testing.TB) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			return n / 1024
		}
	}
	t.Fatal("the process has no VmRSS")
	return 0
}

// BenchmarkDesiredToAction measures the time from the commit of a desired state to the
// first request that changes something on the engine.
func BenchmarkDesiredToAction(b *testing.B) {
	in := install(b)
	p := in.process(b, "only", nil)
	h := in.create(b)
	h.await(b, workspace.PhaseRunning)
	var took []time.Duration
	for i := range actions {
		d, phase := workspace.DesiredStandby, workspace.PhaseStandby
		if i%2 == 1 {
			d, phase = workspace.DesiredRunning, workspace.PhaseRunning
		}
		before := p.engineEffects()
		h.want(b, d)
		committed := time.Now()
		h.await(b, phase)
		took = append(took, p.engineEffects()[len(before)].Sub(committed))
	}
	slices.Sort(took)
	fmt.Printf("figure desired_to_action_ms %.1f ms\n", float64(took[len(took)/2].Microseconds())/1000)
	b.ReportMetric(0, "ns/op")
}
