package processtest

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/control/pressure"
	"github.com/codehub/gateway/coordinator/control/scarcity"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// processConfig is a process's configuration, passed as JSON in its environment.
type processConfig struct {
	Node            string
	Database, Redis string
	Archive         archive.Options
	// Installation is the name of the installation in Docker or, unless Kubernetes is nil, in Kubernetes.
	Installation string
	Docker       docker.Options
	Kubernetes   *kubernetes.Options
	Shards       int
	GCDelay      time.Duration
	GCInterval   time.Duration
	Standby      time.Duration // 0: no workspace is put to sleep
	ArchiveAfter time.Duration // 0: no workspace is archived
	Doze         time.Duration // 0: the product's, which is longer than any test
	Warm         int           // how many sleeping workspaces keep their network; with Docker only
	Pressure     float64       // the share of the disk above which sleeping workspaces are archived; 0: never
	Scrub        bool          // archives are read back
	Keys         archive.Keys  // none: archives are not encrypted
	Keep         int           // how many archives of a workspace are kept; 0: the current one
	Limit        time.Duration // of every operation and wait that has one; 0: the product's
	// Relaxed keeps the product's default intervals.
	Relaxed bool
	Armed   []string
	Trap    trap
	Claims  claims
}

const processEnv = "CODEHUB_PROCESSTEST_PROCESS"

// TestMain makes the test binary a coordinator process when the harness starts it.
func TestMain(m *testing.M) {
	if config := os.Getenv(processEnv); config != "" {
		os.Exit(runProcess(config))
	}
	flag.Parse()
	// Tests of this package wait for the servers most of the time. If more tests ran at once on two processors, each
	// container would take longer to start.
	parallel := "4"
	if devenv.OnKubernetes() {
		parallel = "3" // of one small node
	}
	if err := flag.Set("test.parallel", parallel); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// runProcess runs one coordinator until SIGTERM or the end of its input, which means the end of the harness. On
// standard output it prints a line for each side effect and each action. The lines "hit" and "released" are about an
// armed point, and the lines "leads" and "follows" are about leading.
func runProcess(text string) int {
	var c processConfig
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var out sync.Mutex
	report := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	p := &points{report: report, armed: c.Armed, trap: c.Trap, claims: c.Claims, reached: make(map[string]bool)}
	log := zap.New(zapcore.NewTee(actionCore{report},
		zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(os.Stderr), zap.InfoLevel)))
	c.Docker.Warm = c.Warm
	core, err := coordinator.New(coordinator.Options{
		Database: c.Database, Redis: c.Redis, Archive: c.Archive, Docker: c.Docker, Kubernetes: c.Kubernetes, NodeID: c.Node, Shards: c.Shards,
		Wrap: coordinator.Wrap{Database: tracer{p}, Backend: p.wrap("engine"), Archive: p.wrap("archive")},
	}, log)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	s := coordinator.DefaultSettings()
	// This is off unless the scenario sets it: it creates containers, which are not among the points of other
	// scenarios.
	s.Pressure = pressure.Settings{ArchiveAt: c.Pressure, Interval: time.Second}
	s.Scarcity = scarcity.Settings{} // how much memory this host has would be chance
	s.Archive.Keys = c.Keys
	s.Reconcile.PrepullInterval = 0 // when it looks would be chance
	if !c.Scrub {
		s.Scrub.BytesPerDay = 0 // whether it begins before a scenario ends would be chance
	}
	if !c.Relaxed {
		s.Leader.RetryInterval = 200 * time.Millisecond
		s.Reconcile.IdleInterval = time.Second
		s.Reconcile.SweepInterval = time.Second
		s.Activity.FlushInterval = 500 * time.Millisecond
		s.TTL.Interval = 500 * time.Millisecond
	}
	s.TTL.Standby, s.TTL.Archive = 24*time.Hour, 24*time.Hour
	if c.Standby > 0 {
		s.TTL.Standby = c.Standby
	}
	if c.ArchiveAfter > 0 {
		s.TTL.Archive = c.ArchiveAfter
	}
	if c.Doze > 0 {
		s.TTL.Doze = c.Doze
	}
	s.Limits.PerUser, s.Limits.Global = 100, 100
	if c.GCDelay > 0 {
		s.GC.Delay, s.GC.UndeleteFor, s.GC.Interval, s.GC.UploadExpiry = c.GCDelay, c.GCDelay, c.GCInterval, c.GCDelay
	}
	s.GC.Keep = max(c.Keep, 1)
	if c.Limit > 0 {
		s.Reconcile.WaitLimit = c.Limit
		for op := range s.Reconcile.Timeouts {
			s.Reconcile.Timeouts[op] = c.Limit
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := core.Apply(ctx, s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := core.Start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	report("started")
	go func() { // the harness is gone
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		os.Exit(0)
	}()
	leads, poll := false, 50*time.Millisecond
	if c.Relaxed {
		poll = time.Second // what is measured is not this loop
	}
	for ctx.Err() == nil {
		if now := core.Health().IsLeader; now != leads {
			leads = now
			report("%s", map[bool]string{true: "leads", false: "follows"}[leads])
		}
		select {
		case <-ctx.Done():
		case <-time.After(poll):
		}
	}
	ending, cancel := context.WithTimeout(context.Background(), wait.Timeout)
	defer cancel()
	if err := core.Stop(ending); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// process is a coordinator process as the harness sees it.
type process struct {
	node  string
	cmd   *exec.Cmd
	stdin io.Writer // it ends when this process does
	log   *logBuffer

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at every line
	lines   []string
	times   []time.Time // when each line arrived
	exited  bool
}

// startProcess starts a process and returns when it has connected to its servers.
func startProcess(t testing.TB, c processConfig) *process {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return startProgram(t, c.Node, exe, processEnv+"="+string(text))
}

// startProgram starts another program as the process, which reads its configuration from that variable.
func startProgram(t testing.TB, node, exe, variable string) *process {
	t.Helper()
	p := &process{node: node, cmd: exec.Command(exe), log: new(logBuffer), changed: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), variable)
	p.cmd.Stderr = p.log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.add(lines.Text(), false)
		}
		_ = p.cmd.Wait() // how it ended does not matter
		p.add("", true)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Signal(syscall.SIGCONT)
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // both fail if it has exited
		select {
		case <-ended:
		case <-time.After(wait.Timeout):
			_ = p.cmd.Process.Kill()
			<-ended
			t.Errorf("%s did not end", p.node)
		}
		if t.Failed() {
			fmt.Fprintf(testlog.Writer(t), "the log of %s:\n%s", p.node, p.log)
		}
	})
	p.awaitStart(t)
	return p
}

// awaitStart returns when the process has started. It also returns if the process reaches an armed point before that.
func (p *process) awaitStart(t testing.TB) {
	t.Helper()
	p.awaitAny(t, "started", func() bool {
		return slices.ContainsFunc(p.lines, func(l string) bool { return l == "started" || strings.HasPrefix(l, "hit ") })
	})
}

func (p *process) add(line string, exited bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if exited {
		p.exited = true
	} else {
		p.lines, p.times = append(p.lines, line), append(p.times, time.Now())
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// await returns when the process has printed the line.
func (p *process) await(t testing.TB, line string) {
	t.Helper()
	p.awaitAny(t, line, func() bool { return p.count(line) > 0 })
}

// awaitAny returns when the condition about the lines holds; it is called with p.mu held.
func (p *process) awaitAny(t testing.TB, what string, condition func() bool) {
	t.Helper()
	timeout := time.After(wait.Timeout)
	for {
		p.mu.Lock()
		found, exited, changed := condition(), p.exited, p.changed
		p.mu.Unlock()
		if found {
			return
		}
		if exited {
			t.Fatalf("%s ended before it said %q", p.node, what)
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s did not say %q in time", p.node, what)
		}
	}
}

// nextHit waits until the process has reached more than n points, and returns the next one after those. It returns ""
// if ctx or the process ends first.
func (p *process) nextHit(ctx context.Context, n int) (point string) {
	for {
		p.mu.Lock()
		exited, changed := p.exited, p.changed
		p.mu.Unlock()
		if hits := p.reports("hit "); len(hits) > n {
			return hits[n]
		}
		if exited {
			return ""
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ""
		}
	}
}

// leads reports whether the process's last report about this was that it leads, and not that it follows.
func (p *process) leads() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count("leads") > p.count("follows")
}

// count returns how often the process has printed the line; p.mu is held.
func (p *process) count(line string) int {
	n := 0
	for _, l := range p.lines {
		if l == line {
			n++
		}
	}
	return n
}

// said reports whether the process has printed the line.
func (p *process) said(line string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count(line) > 0
}

// reports returns the lines of the process that begin with the prefix. It removes the prefix and duplicates, and keeps
// the order.
func (p *process) reports(prefix string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	for _, l := range p.lines {
		if name, ok := strings.CutPrefix(l, prefix); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// reported returns an error unless the process has reported all these side effects.
func (p *process) reported(names []string) error {
	seen := p.reports("effect ")
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(seen, name) })
	if len(missing) > 0 {
		return fmt.Errorf("%q did not happen", missing)
	}
	return nil
}

// engineEffects returns when each request that changes something on the engine was made.
func (p *process) engineEffects() []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	var at []time.Time
	for i, l := range p.lines {
		if strings.HasPrefix(l, "effect engine ") {
			at = append(at, p.times[i])
		}
	}
	return at
}

// dead reports whether the process has ended.
func (p *process) dead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exited
}

// signal sends a signal to the process.
func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatalf("sending %s to %s: %v", s, p.node, err)
	}
}
