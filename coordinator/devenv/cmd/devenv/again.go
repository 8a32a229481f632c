package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

const (
	// againDir has the test programs while they run, and the output of those that failed.
	againDir = ".codehub/again"
	// againTimeout ends a test program that hangs: it is several times the time of the slowest one.
	againTimeout = 20 * time.Minute
	// againDelay limits how long the children of an ended test program may keep its output open.
	againDelay = time.Minute
	// seedEnv is read by coordinator/seed, which is for tests alone.
	seedEnv = "SEED"
)

// circumstances are the conditions under which a package's tests run once.
type circumstances struct {
	// cpu is go test's -cpu: the number of processors for the tests. With several values, the tests run once with each
	// value, in the same process. The second run shows what the first run has left behind.
	cpu string
	// load says whether all processors are kept busy meanwhile.
	load bool
}

// rounds are the circumstances of successive rounds; after the last of them, the first is used again.
var rounds = []circumstances{{"1", true}, {"2", true}, {"1", false}, {"2,1", true}}

// suite contains the tests of one package.
type suite struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string

	program  string
	running  bool
	broken   error // it could not be built
	runs     int
	took     time.Duration // all runs together
	slowest  time.Duration
	failed   int
	failures map[string]int // in how many rounds each test has failed
}

// again runs the tests of all packages again and again, as often as the flags say and as long as there is time. It
// fails if any test has failed once.
//
// The next package is always the one whose tests have had the least time so far. So each package gets one round, cheap
// packages get all their rounds, and expensive ones share the remaining time.
func again(ctx context.Context, root string, env, args []string) error {
	return repeat(ctx, root, env, args, os.Stdout)
}

func repeat(ctx context.Context, root string, env, args []string, out io.Writer) error {
	flags := flag.NewFlagSet(commandAgain, flag.ContinueOnError)
	// A failure in one round is no input for the next.
	r := repetition{root: root, env: append(env, "RAPID_NOFAILFILE=true"), out: out}
	budget := flags.Duration("for", time.Hour, "start nothing that is not likely to end within this time")
	flags.IntVar(&r.rounds, "rounds", 20, "how often each package is run at most")
	workers := flags.Int("p", runtime.NumCPU(), "how many packages are run at the same time")
	flags.StringVar(&r.pattern, "run", "", "run only the tests that match")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r.end = time.Now().Add(*budget)
	lock, err := cleanDir(filepath.Join(root, againDir))
	if err != nil {
		return err
	}
	defer lock.Close()
	if r.suites, err = suites(ctx, root, flags.Args()); err != nil {
		return err
	}
	var all sync.WaitGroup
	for range *workers {
		all.Go(func() {
			for s := r.next(); s != nil && ctx.Err() == nil; s = r.next() {
				r.round(ctx, s)
			}
		})
	}
	all.Wait()
	return r.report()
}

// cleanDir makes the folder for test programs, empty and locked.
func cleanDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder for test programs: %w", err)
	}
	lock, err := server.TryLock(dir + ".lock")
	if errors.Is(err, server.ErrLocked) {
		return nil, errors.New("another `make test-again` runs here: end it first, or run in another copy of " +
			"the repository")
	}
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)); err != nil {
		return nil, errors.Join(fmt.Errorf("emptying the folder for test programs: %w", err), lock.Close())
	}
	return lock, nil
}

// suites lists the packages that have tests.
func suites(ctx context.Context, root string, patterns []string) (all []*suite, err error) {
	cmd := command(ctx, root, "go",
		append([]string{"list", "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	cmd.Stdout = nil
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing packages: %w", err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		s := suite{failures: make(map[string]int)}
		if err := d.Decode(&s); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the list of packages: %w", err)
		}
		if len(s.TestGoFiles)+len(s.XTestGoFiles) > 0 {
			all = append(all, &s)
		}
	}
}

// repetition is one run of [again].
type repetition struct {
	root    string
	env     []string
	out     io.Writer
	end     time.Time
	rounds  int
	pattern string

	mu     sync.Mutex
	suites []*suite
}

// next returns the package whose turn it is, and marks it as running. It returns nil if there is nothing left to
// start.
func (r *repetition) next() *suite {
	r.mu.Lock()
	defer r.mu.Unlock()
	var least *suite
	for _, s := range r.suites {
		ready := !s.running && s.broken == nil && s.runs < r.rounds && time.Now().Add(s.slowest).Before(r.end)
		if ready && (least == nil || s.took < least.took) {
			least = s
		}
	}
	if least != nil {
		least.running = true
	}
	return least
}

// round runs a package once. One seed determines both the order of the tests and their random choices, so that running
// with it repeats both.
func (r *repetition) round(ctx context.Context, s *suite) {
	err := r.build(ctx, s)
	var output []byte
	var took time.Duration
	number := strconv.FormatInt(1+rand.Int64N(1<<31), 10)
	c := rounds[s.runs%len(rounds)]
	if err == nil {
		busy, stop := context.WithCancel(ctx)
		if c.load {
			load(busy)
		}
		start := time.Now()
		cmd := exec.CommandContext(ctx, s.program, "-test.shuffle="+number, "-test.cpu="+c.cpu, "-test.run="+r.pattern,
			"-test.timeout="+againTimeout.String())
		cmd.Dir, cmd.WaitDelay = s.Dir, againDelay
		first, _, _ := strings.Cut(c.cpu, ",")
		cmd.Env = append(slices.Clone(r.env), seedEnv+"="+number, "GOMAXPROCS="+first, "PWD="+s.Dir)
		output, err = cmd.CombinedOutput()
		took = time.Since(start)
		stop()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	s.running = false
	if ctx.Err() != nil {
		return // interrupted
	}
	if s.program == "" {
		s.broken = err
		fmt.Fprintf(r.out, "%s: %v\n", s.ImportPath, err)
		return
	}
	s.runs, s.took, s.slowest = s.runs+1, s.took+took, max(s.slowest, took)
	if s.runs == r.rounds {
		defer fmt.Fprintf(r.out, "%s has had its %d rounds\n", s.ImportPath, s.runs)
	}
	if err == nil {
		return
	}
	s.failed++
	names := failedIn(string(output))
	if len(names) == 0 {
		names = []string{err.Error()}
	}
	for _, name := range names {
		s.failures[name]++
	}
	kept := s.program + "-" + number + ".log"
	if err := os.WriteFile(kept, output, 0o644); err != nil {
		kept = err.Error()
	}
	fmt.Fprintf(r.out, "FAIL %s: %s, after %s with -cpu=%s, load %t, -shuffle and SEED %s: %s\n",
		s.ImportPath, strings.Join(names, ", "), took.Round(time.Second), c.cpu, c.load, number, kept)
}

// build makes the test program of a package, only once, because linking takes longer than most tests do.
func (r *repetition) build(ctx context.Context, s *suite) error {
	if s.program != "" {
		return nil
	}
	path := filepath.Join(r.root, againDir, strings.ReplaceAll(s.ImportPath, "/", "_")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-C", s.Dir, "-c", "-ldflags=-s -w", "-o", path, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the tests: %w\n%s", err, out)
	}
	s.program = path
	return nil
}

// load keeps every processor busy until ctx ends.
func load(ctx context.Context) {
	for range runtime.NumCPU() {
		go func() {
			for ctx.Err() == nil {
			}
		}()
	}
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// failedIn returns the failed tests from the output of a test program, without those that failed because of a
// subtest.
func failedIn(output string) (names []string) {
	for _, m := range failedTest.FindAllStringSubmatch(output, -1) {
		names = append(names, m[1])
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// report prints the rounds and failures of each package, and removes the test programs.
func (r *repetition) report() error {
	slices.SortFunc(r.suites, func(a, b *suite) int { return cmp.Compare(a.slowest, b.slowest) })
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nROUNDS\tFAILED\tSLOWEST\tPACKAGE")
	failed, missed := 0, 0
	var errs []error
	for _, s := range r.suites {
		fmt.Fprintf(table, "%d of %d\t%d\t%.1f s\t%s\n", s.runs, r.rounds, s.failed, s.slowest.Seconds(), s.ImportPath)
		failed += s.failed
		if s.broken != nil {
			failed++
		} else if s.runs == 0 {
			missed++
		}
		if s.program != "" {
			errs = append(errs, os.Remove(s.program))
		}
	}
	errs = append(errs, table.Flush())
	for _, s := range r.suites {
		for _, name := range slices.Sorted(maps.Keys(s.failures)) {
			fmt.Fprintf(r.out, "%s of %s failed in %d of %d rounds\n", name, s.ImportPath, s.failures[name], s.runs)
		}
	}
	if missed > 0 {
		fmt.Fprintf(r.out, "for %d packages there was no time at all\n", missed)
	}
	if failed > 0 {
		errs = append(errs, fmt.Errorf("%d runs failed", failed))
	}
	return errors.Join(errs...)
}
