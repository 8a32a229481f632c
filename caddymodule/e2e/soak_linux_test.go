package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/e2e/soak"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/devenv/plot"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
)

var (
	soakFor    = flag.Duration("soak", 0, "for how long TestSoak makes faults; it does not run without")
	soakFolder = flag.String("soak-folder", "../../.codehub/soak", "folder to which TestSoak writes its report and the logs")
)

const (
	// soakProcesses is the number of serving processes. The first one is suspended but never killed, so that whatever
	// it leaks adds up.
	soakProcesses = 3
	// soakEditors is the number of users who work in their own containers. soakKeepers is the number of users who have
	// soakSleeping sleeping workspaces each. soakWatchers is the number of users who only watch.
	soakEditors, soakKeepers, soakWatchers = 24, 100, 76
	soakSleeping                           = 20
	// soakRequest bounds how long a user waits for one answer. soakCertain bounds how long a user waits until a
	// workspace is certainly created.
	soakRequest, soakCertain = 40 * time.Second, 3 * time.Minute
	// soakFlawless is how long users continue to work at the end, after the last fault, once every workspace has shown
	// its page again. Nothing may fail in that time.
	soakFlawless = 15 * time.Second
	// soakWarm is how long users work before the measurements and the faults begin.
	soakWarm = 40 * time.Second
	// soakRest is how long it may take until everything sleeps and is archived. soakSettle is how long it may take
	// until everything that was kept for reuse is closed or removed: connections, and the helpers of a killed engine,
	// which are removed after 5 minutes.
	soakRest, soakSettle = 6 * time.Minute, 7 * time.Minute
)

// soaking is a run. It has users, and an installation with its own servers and several processes behind a load
// balancer.
type soaking struct {
	*installation
	seed     uint64
	rec      *soak.Recorder
	balancer *balancer
	nodes    []*node
	victims  []*victim
	redis    *redis.Client
	admin    *visitor
	editors  []*visitor
	keepers  []*visitor
	watchers []*visitor
	names    []map[string]string // of the workspaces of each keeper

	held             atomic.Int64 // requests that wait for an answer
	created, deleted atomic.Int64 // workspaces
	doubted          sync.Map     // ids of workspaces that may have either state
	flawless         atomic.Bool  // nothing may fail now
	dozes            int
	recovered        time.Duration // from the last fault until every home had shown its page

	mu       sync.Mutex
	faults   []soak.Fault
	problems []string
}

// node is a process of the installation.
type node struct {
	*victim
	*installation
	output     *os.File
	launched   time.Time
	goroutines map[string]int // at the last snapshot
}

// problem records something that is wrong and that no injected fault excuses.
func (s *soaking) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 50 // the first ones say what is wrong
	if len(s.problems) < most {
		text := fmt.Sprintf("%.1f s: ", s.rec.At(time.Now())) + fmt.Sprintf(format, args...)
		fmt.Println("soak: problem at", text)
		s.problems = append(s.problems, text)
	}
}

// failedNow counts an error that a user sees.
func (s *soaking) failedNow(who, kind, detail string) {
	s.rec.Count("errors/" + kind)
	if s.flawless.Load() {
		s.problem("with all servers there %s has seen an error: %s %s", who, kind, detail)
	}
}

// TestSoak: hundreds of users work for a long time, while all servers, processes and storage jobs are killed and
// suspended at random. In the end every home has its user's files, nothing waits for a person, and nothing new is
// left behind. `make soak` runs it.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("make soak says for how long it runs")
	}
	if os.Getuid() != 0 {
		t.Fatal("only root can run a container engine of the test's own")
	}
	s := newSoaking(t)
	defer s.report(t)
	s.populate(t)

	measured, stop := context.WithCancel(t.Context())
	var measuring sync.WaitGroup
	measuring.Go(func() { s.measure(measured) })
	t.Cleanup(func() { stop(); measuring.Wait() })

	s.work(t, func(ctx context.Context) { pauseFor(ctx, soakWarm) })
	s.rests(t)
	fmt.Printf("soak: %6.1f s faults begin\n", s.rec.At(time.Now()))
	var before soak.Snapshot
	wait.For(t, "the archives of deleted workspaces are collected", func() error {
		before = s.snapshot(t)
		if n := before["rows archives"]; n != 0 {
			return fmt.Errorf("there are %g too many", n)
		}
		return nil
	})
	groups := maps.Clone(s.nodes[0].goroutines)

	faulty := time.Now()
	s.work(t, func(ctx context.Context) {
		s.breakThings(ctx, t)
		s.recovers(ctx)
		s.flawless.Store(true)
		pauseFor(ctx, soakFlawless)
		s.flawless.Store(false)
	})
	fmt.Printf("soak: %6.1f s all is repaired, and the homes are looked at\n", s.rec.At(time.Now()))
	s.checkHomes(t)
	s.rests(t)
	fmt.Printf("soak: %6.1f s all sleeps\n", s.rec.At(time.Now()))
	s.checkModel(t)
	s.checkLeaks(t, before, groups)
	s.checkMemory(faulty)
}

// recovers waits until every workspace has shown its page. Then the processes have worked off the backlog that the
// faults left.
func (s *soaking) recovers(ctx context.Context) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, soakRest)
	defer cancel()
	eachOf(len(s.editors), s.editors, func(_ int, v *visitor) {
		if !v.companion("another tab").open(ctx) {
			s.problem("the home of %s does not show its page %s after the last fault", v.name, time.Since(began))
		}
	})
	s.recovered = time.Since(began)
	fmt.Printf("soak: %6.1f s every home has shown its page\n", s.rec.At(time.Now()))
}

// pauseFor waits for a time or until ctx ends, because in some phases of a run there is nothing else to wait for.
func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// newSoaking starts the servers and the processes.
func newSoaking(t *testing.T) *soaking {
	t.Helper()
	s := &soaking{seed: seed.New(t)}
	fmt.Printf("soak: SEED=%d\n", s.seed)
	if err := os.MkdirAll(*soakFolder, 0o755); err != nil {
		t.Fatal(err)
	}
	postgres, database := postgresVictim(t)
	redis, redisURL := redisVictim(t)
	store, bucket := storeVictim(t)
	engineV, engine := engineVictim(t)
	settings := append(engine.settings(t), "DATABASE_URL="+database, "REDIS_URL="+redisURL,
		"S3_ENDPOINT="+bucket.Endpoint, "S3_BUCKET=soak", "S3_ACCESS_KEY="+bucket.AccessKey, "S3_SECRET_KEY="+bucket.SecretKey,
		"TTL_DOZE_SECONDS=5", "TTL_STANDBY_SECONDS=20", "TTL_ARCHIVE_SECONDS=15", "COORDINATOR_GC_INTERVAL=10s", "COORDINATOR_GC_DELAY=10s", "COORDINATOR_UNDELETE_FOR=10s",
		"COORDINATOR_SHARDS=2", "LIMITS_MAX_WORKSPACES_PER_USER=0", "COORDINATOR_SCRUB=0")
	s.installation = prepare(t, settings...)
	s.config = copied(t, s.config)
	s.docker = devenv.Inspect(t, engine.host(), s.id)
	s.engine = s.docker
	t.Cleanup(func() { devenv.Clear(t, s.engine) }) // after the processes have ended
	s.bucket = "soak"
	s.s3 = devenv.ObjectStore{Endpoint: bucket.Endpoint, Region: server.S3Region, AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey}.Client(t)
	s.connectRedis(t, redisURL)

	var ports []int
	for range soakProcesses {
		ports = append(ports, freePort(t))
	}
	s.balancer = balance(t, ports)
	s.installation.port = s.balancer.port()
	s.rec = soak.NewRecorder(time.Now())
	for i, port := range ports {
		s.nodes = append(s.nodes, s.node(t, i, port))
	}
	s.victims = []*victim{postgres, redis, store, engineV}
	for _, n := range s.nodes {
		s.victims = append(s.victims, n.victim)
	}
	s.victims = append(s.victims, &victim{Target: soak.Target{Name: "a storage job", Whats: []string{soak.Crash}}, crash: s.killAnyJob})
	t.Cleanup(func() {
		for _, v := range s.victims {
			if v.repair != nil { // the test has failed before
				v.repair()
			}
		}
	})
	for i, n := range s.nodes {
		wait.Until(t, n.Name+" serves", s.balancer.backends[i].up.Load)
	}
	return s
}

// copied returns a copy of a file, because work in this tree during a long run may change the original.
func copied(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), filepath.Base(path))
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// node starts a process, which is restarted whenever it ends.
func (s *soaking) node(t *testing.T, i, port int) *node {
	t.Helper()
	one, home := *s.installation, t.TempDir()
	one.adminSocket = filepath.Join(home, "admin.sock")
	name := fmt.Sprintf("caddy-%d", i)
	one.env = append(slices.Clone(one.env), fmt.Sprintf("CODEHUB_HTTP_PORT=%d", port), "COORDINATOR_NODE_ID="+name,
		"CODEHUB_ADMIN_ADDRESS=unix/"+one.adminSocket, "HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home,
		"CODEHUB_PUBLIC_URL="+s.url(""))
	output, err := os.Create(filepath.Join(*soakFolder, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{installation: &one, output: output}
	whats := []string{soak.Kill, soak.Stop}
	if i == 0 {
		whats = []string{soak.Stop}
	}
	n.victim = &victim{
		Target:    soak.Target{Name: name, Whats: whats},
		processes: func() []int { return []int{n.cmd.Process.Pid} },
		ended:     func(*testing.T) { <-n.exited },
		start:     n.relaunch,
	}
	t.Cleanup(func() { n.signal(t, syscall.SIGCONT); n.installation.kill(); _ = output.Close() })
	n.relaunch(t)
	return n
}

// relaunch starts the program again. It does not wait until the program serves, because the servers may be away.
func (n *node) relaunch(t *testing.T) {
	t.Helper()
	n.launched = time.Now()
	n.launch(t, n.output)
}

// populate adds the users and their workspaces.
func (s *soaking) populate(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakRest)
	defer cancel()
	var all []*visitor
	for i := range soakEditors + soakKeepers + soakWatchers {
		v, err := s.visitor(fmt.Sprintf("user-%d", i), uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	s.editors, s.keepers, s.watchers = all[:soakEditors], all[soakEditors:soakEditors+soakKeepers], all[soakEditors+soakKeepers:]
	for range s.keepers {
		s.names = append(s.names, map[string]string{})
	}
	var err error
	if s.admin, err = s.visitor("admin", 0); err != nil {
		t.Fatal(err)
	}
	s.admin.until(ctx, "POST", "/api/v1/auth/login", nil, map[string]string{"username": "admin", "password": s.password}, nil, 200)
	s.admin.until(ctx, "POST", "/api/v1/users", nil, map[string]string{"username": "user-0", "password": userPassword, "role": "user"}, nil, 201)
	s.addUsers(ctx, t, len(all))
	ready := atomic.Int64{}
	eachOf(4, all, func(i int, v *visitor) {
		if !v.signIn(ctx) {
			return
		}
		if i < soakEditors {
			var w workspace
			if !v.until(ctx, "POST", "/api/v1/workspaces", nil, map[string]string{"name": "home"}, &w, 201) {
				return
			}
			v.home = w.ID
			s.created.Add(1)
		} else if i < soakEditors+soakKeepers {
			for range soakSleeping {
				v.make(ctx, s.names[i-soakEditors])
			}
		}
		ready.Add(1)
	})
	if int(ready.Load()) != len(all) {
		t.Fatalf("only %d users of %d are ready after %s; problems: %q", ready.Load(), len(all), soakRest, s.problems)
	}
}

// addUsers adds user-1 and all further users with the password hash of user-0, because hashing a password takes long.
func (s *soaking) addUsers(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	conn, err := pgx.Connect(ctx, s.setting("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, `INSERT INTO users (username, password_hash)
		SELECT 'user-' || i, password_hash FROM users, generate_series(1, $1::int - 1) AS i WHERE username = 'user-0'`, n); err != nil {
		t.Fatal(err)
	}
}

// eachOf calls do for each user, for at most atOnce users at the same time, and waits until all calls have returned.
func eachOf(atOnce int, all []*visitor, do func(int, *visitor)) {
	turns := make(chan struct{}, atOnce)
	var wg sync.WaitGroup
	for i, v := range all {
		turns <- struct{}{}
		wg.Go(func() { defer func() { <-turns }(); do(i, v) })
	}
	wg.Wait()
}

// work keeps all users busy while during runs, and returns when all of them have left.
func (s *soaking) work(t *testing.T, during func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var users sync.WaitGroup
	for _, v := range s.editors {
		users.Go(func() { v.edit(ctx) })
		users.Go(func() { v.program(ctx) })
	}
	for i, v := range s.keepers {
		users.Go(func() { v.keep(ctx, s.names[i]) })
		users.Go(func() { v.watch(ctx) })
	}
	for _, v := range s.watchers {
		users.Go(func() { v.watch(ctx) })
	}
	during(ctx)
	cancel()
	users.Wait()
	for _, v := range slices.Concat(s.editors, s.keepers, s.watchers, []*visitor{s.admin}) {
		v.leave()
	}
}

// breakThings carries out the schedule of faults, and repairs everything at the end.
func (s *soaking) breakThings(ctx context.Context, t *testing.T) {
	t.Helper()
	var targets []soak.Target
	for _, v := range s.victims {
		targets = append(targets, v.Target)
	}
	plan := soak.Schedule(rand.New(rand.NewPCG(s.seed, 0)), *soakFor, targets)
	began := time.Now()
	until := make(map[*victim]time.Time)
	for ctx.Err() == nil && (len(plan) > 0 || len(until) > 0 || time.Since(began) < *soakFor) {
		s.restartEnded(t)
		for v, at := range until {
			if v.repair == nil {
				delete(until, v)
			} else if time.Now().After(at) {
				v.repair()
				delete(until, v)
			}
		}
		if len(plan) > 0 && time.Since(began) >= plan[0].After {
			if v := s.hit(t, plan[0]); v.repair != nil {
				until[v] = time.Now().Add(plan[0].Lasts)
			}
			plan = plan[1:]
		}
		pauseFor(ctx, 50*time.Millisecond)
	}
	for i, n := range s.nodes {
		wait.For(t, n.Name+" serves again", func() error {
			s.restartEnded(t)
			if !s.balancer.backends[i].up.Load() {
				return errors.New("it does not")
			}
			return nil
		})
	}
}

// hit carries out one fault. The victim records how to repair it later.
func (s *soaking) hit(t *testing.T, p soak.Planned) *victim {
	t.Helper()
	v := s.victims[slices.IndexFunc(s.victims, func(v *victim) bool { return v.Name == p.Server })]
	if v.repair != nil {
		v.repair() // the schedule is late: another server took long to start
	}
	f := soak.Fault{At: time.Now(), Server: p.Server, What: p.What, Lasts: p.Lasts}
	s.mu.Lock()
	s.faults = append(s.faults, f)
	s.mu.Unlock()
	fmt.Printf("soak: %6.1f s %s\n", s.rec.At(f.At), f)
	switch p.What {
	case soak.Crash:
		v.crash(t)
	case soak.Stop:
		v.repair = func() { v.signal(t, syscall.SIGCONT); v.repair = nil }
		v.signal(t, syscall.SIGSTOP)
	default:
		v.repair = func() { v.start(t); v.repair = nil }
		v.kill(t)
	}
	return v
}

// restartEnded restarts processes that have ended by themselves. A process may end by itself only while it starts,
// because its servers may be down then.
func (s *soaking) restartEnded(t *testing.T) {
	t.Helper()
	for _, n := range s.nodes {
		select {
		case <-n.exited:
		default:
			continue
		}
		if n.repair != nil {
			continue // it was killed
		}
		if lived := time.Since(n.launched); lived > wait.Timeout {
			s.problem("%s has ended by itself after %s", n.Name, lived)
		}
		if time.Since(n.launched) > time.Second {
			n.relaunch(t)
		}
	}
}

// killAnyJob kills a storage job, if one runs.
func (s *soaking) killAnyJob(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	all, _ := s.docker.Containers(ctx, "") // the engine may be away
	for _, c := range all {
		if c.Kind == inspect.Job && c.State == inspect.Running {
			_ = s.docker.Kill(ctx, c)
			return
		}
	}
}

// rests waits until everything is at rest: every workspace is archived, without an operation, an error or a wait.
func (s *soaking) rests(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakRest)
	defer cancel()
	for {
		restless := map[string]int{}
		for _, v := range slices.Concat(s.editors, s.keepers) {
			phases, _, ok := v.phases(ctx)
			if !ok {
				restless[v.name+" gets no answer"]++
			}
			for _, phase := range phases {
				if phase != "ARCHIVED" {
					restless[phase]++
				}
			}
			v.leave()
		}
		if len(restless) == 0 {
			return
		}
		if ctx.Err() != nil {
			for phase, n := range restless {
				s.problem("%d workspaces are still %s", n, phase)
			}
			return
		}
		pauseFor(ctx, time.Second)
	}
}

// checkHomes looks into every home, a few at a time.
func (s *soaking) checkHomes(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakRest)
	defer cancel()
	eachOf(6, s.editors, func(_ int, v *visitor) {
		if err := v.check(ctx); err != nil {
			s.problem("the home of %s (%s): %v", v.name, v.home, err)
		}
		v.leave()
	})
}

// checkModel compares the list of the sleeping workspaces with the changes that their users have made to it.
func (s *soaking) checkModel(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakRest)
	defer cancel()
	for i, v := range s.keepers {
		_, names, _ := v.phases(ctx)
		for id := range s.doubted.Range {
			delete(names, id.(string))
		}
		if !maps.Equal(names, s.names[i]) {
			s.problem("%s has %d workspaces %v, and made %d of them %v", v.name, len(names), names, len(s.names[i]), s.names[i])
		}
		v.leave()
	}
	conn, err := pgx.Connect(ctx, s.setting("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if err := conn.QueryRow(ctx, `SELECT count(*) FROM workspace_history WHERE kind = 'dozed'`).Scan(&s.dozes); err != nil {
		t.Fatal(err)
	}
	if s.dozes == 0 {
		s.problem("no workspace has dozed")
	}
}

// checkLeaks waits until the faults have left nothing behind. If something stays, it names that.
func (s *soaking) checkLeaks(t *testing.T, before soak.Snapshot, groups map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soakSettle)
	defer cancel()
	for {
		after := s.snapshot(t)
		leaks := soak.Leaks(before, after, soakAllowed)
		if len(leaks) == 0 {
			t.Logf("at rest before and after the faults: %v and %v", before, after)
			return
		}
		if ctx.Err() != nil {
			for _, leak := range leaks {
				s.problem("left over: %s", leak)
			}
			t.Logf("at rest before the faults: %v\nafter them: %v\n%s", before, after, strings.Join(s.contents(t), "\n"))
			t.Logf("goroutines of %s: %q", s.nodes[0].Name, soak.Grown(groups, s.nodes[0].goroutines))
			return
		}
		pauseFor(ctx, 2*time.Second)
	}
}

// checkMemory checks that the memory of the process that lives through the whole run has not grown. It compares values
// at equal load, after the first fifth of the time with faults.
func (s *soaking) checkMemory(faulty time.Time) {
	from, to := s.rec.At(faulty.Add(*soakFor/5)), s.rec.At(faulty.Add(*soakFor))
	for _, kind := range []struct {
		line  string
		share float64
		least float64 // MiB
	}{{"heap/", 0.15, 12}, {"rss/", 0.25, 48}} {
		name := kind.line + s.nodes[0].Name
		points := slices.Clone(s.rec.Line(name))
		points = slices.DeleteFunc(points, func(p plot.Point) bool { return p.X < from || p.X > to })
		if grew, may := soak.Growth(points, kind.share, kind.least); grew > may {
			s.problem("%s has grown by %.1f MiB, and may by %.1f", name, grew, may)
		}
	}
}

// report prints the figures, writes the page, and fails the test if there is a problem.
func (s *soaking) report(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	r := soak.Report{
		Title: fmt.Sprintf("Soak of %s", *soakFor), Seed: s.seed, Faults: s.faults, Problems: s.problems, Recorder: s.rec,
	}
	if t.Failed() && len(r.Problems) == 0 {
		r.Problems = []string{"the test has failed before its end; its output says why"}
	}
	add := func(name string, value float64, unit string) {
		r.Figures = append(r.Figures, soak.Figure{Name: "soak_" + name, Value: value, Unit: unit})
	}
	for _, name := range []string{"requests", "errors", "wakes", "events"} {
		add(name, s.rec.Total(name+"/"), "count")
	}
	median, n := s.rec.Percentile("wake", 0.5)
	slow, _ := s.rec.Percentile("wake", 0.99)
	add("wake_p50", median, "s")
	add("wake_p99", slow, "s")
	add("dozes", float64(s.dozes), "count")
	add("wakes_timed", float64(n), "count")
	add("recovered", s.recovered.Seconds(), "s")
	written := 0
	for _, v := range s.editors {
		written += v.diary.Acknowledged()
	}
	add("writes_acknowledged", float64(written), "count")
	add("workspaces", float64(s.created.Load()), "count")
	add("workspaces_deleted", float64(s.deleted.Load()), "count")
	add("faults", float64(len(s.faults)), "count")
	add("problems", float64(len(r.Problems)), "count")
	for name, unit := range map[string]string{"rss": "MiB", "heap": "MiB", "goroutines": "goroutines", "fds": "handles"} {
		if points := s.rec.Line(name + "/" + s.nodes[0].Name); len(points) > 0 {
			add("at_rest_"+name, points[len(points)-1].Y, unit)
		}
	}
	for _, f := range r.Figures {
		figure(f.Name, f.Value, f.Unit)
	}
	path := filepath.Join(*soakFolder, "index.html")
	file, err := os.Create(path)
	if err == nil {
		err = errors.Join(r.WriteHTML(file), file.Close())
	}
	if err != nil {
		t.Error(err)
	}
	fmt.Println("soak: the report is", path)
	for _, p := range r.Problems {
		t.Error(p)
	}
}
