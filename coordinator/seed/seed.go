// Package seed makes the random choices of tests repeatable. Each test prints its seed when it fails, and accepts one
// from the environment.
//
// Fast tests run with some fixed seeds and a new one ([Each], [Rapid], [Numbers]). Tests that take tens of seconds,
// because they kill and stop real processes, run only with a new one ([New]): their outcome depends on timing even more
// than on the seed, so a fixed seed would repeat little. Content of which only the size matters needs no seed.
package seed

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// Env is the variable that holds a seed, at least 1: tests then run only with that seed.
const Env = "SEED"

// AllEnv is the variable that makes [Third] choose all cases: `make test-all` sets it.
const AllEnv = "CODEHUB_TEST_ALL"

// All reports whether every case of a large matrix must be tried.
func All() bool { return os.Getenv(AllEnv) != "" }

// Third returns a random third of the cases of a large matrix, in order, or all cases if [All] says so.
func Third[T any](t testing.TB, cases []T) []T {
	t.Helper()
	if All() {
		return cases
	}
	return Sample(t, cases, (len(cases)+2)/3)
}

// Sample returns n random cases, in order.
func Sample[T any](t testing.TB, cases []T, n int) []T {
	t.Helper()
	chosen := Source(New(t)).Perm(len(cases))[:min(n, len(cases))]
	slices.Sort(chosen)
	some := make([]T, len(chosen))
	for i, index := range chosen {
		some[i] = cases[index]
	}
	return some
}

// fixed is how many fixed seeds [Each] and [Rapid] try: 1, 2 and so on.
const fixed = 3

// New returns the seed of the environment, or else a new one.
func New(t testing.TB) uint64 {
	t.Helper()
	number := choose(t)
	t.Log(repeat(number, t.Name()))
	return number
}

// Numbers returns the seed of the environment, or else the seeds 1 to n and a new one. The test must name the one that
// fails.
func Numbers(t testing.TB, n uint64) (all []uint64) {
	t.Helper()
	if os.Getenv(Env) == "" {
		for number := range n {
			all = append(all, number+1)
		}
	}
	return append(all, choose(t))
}

func choose(t testing.TB) uint64 {
	t.Helper()
	text := os.Getenv(Env)
	if text == "" {
		return 1 + rand.Uint64N(1<<32)
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || number == 0 {
		t.Fatalf("%s is %q; give a number from 1 on", Env, text)
	}
	return number
}

// Source returns a random source with a seed.
func Source(number uint64) *rand.Rand { return rand.New(rand.NewPCG(number, 0)) }

// Each runs a fast test with several seeds.
func Each(t *testing.T, test func(t *testing.T, random *rand.Rand)) {
	t.Helper()
	each(t, func(t *testing.T, number uint64) { test(t, Source(number)) })
}

func each(t *testing.T, test func(t *testing.T, number uint64)) {
	t.Helper()
	for _, number := range Numbers(t, fixed) {
		t.Run(Env+"="+strconv.FormatUint(number, 10), func(t *testing.T) {
			t.Log(repeat(number, t.Name()))
			test(t, number)
		})
	}
}

// rapidSeed is rapid's flag, which is the only way to give it a seed. A value for this flag on the command line has the
// same effect as [Env]: rapid tells people to use the flag to repeat a case that has failed.
const rapidSeed = "rapid.seed"

// rapids prevents concurrent tests from changing each other's seed.
var rapids sync.Mutex

// Rapid is [rapid.Check] with several seeds.
func Rapid(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	rapids.Lock()
	defer rapids.Unlock()
	given := flag.Lookup(rapidSeed).Value.String()
	if given != "0" {
		rapid.Check(t, property)
		return
	}
	defer flag.Set(rapidSeed, given)
	each(t, func(t *testing.T, number uint64) {
		if err := flag.Set(rapidSeed, strconv.FormatUint(number, 10)); err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, property)
	})
}

// repeat returns the command that repeats a test with a seed.
func repeat(number uint64, test string) string {
	name, _, _ := strings.Cut(test, "/")
	pkg := "PACKAGE"
	if info, ok := debug.ReadBuildInfo(); ok {
		pkg = cmp.Or(strings.TrimSuffix(info.Path, ".test"), pkg)
	}
	return fmt.Sprintf("chosen at random; the same again: make test %s=%d ARGS='-run ^%s$ %s'", Env, number, name, pkg)
}
