// Package wait lets tests wait for a condition that gives no signal. If there is a signal, such as a channel, tests
// should wait for that instead.
package wait

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Timeout is how long a test waits. It is far longer than any condition takes on a busy machine: reaching it means that
// the condition never becomes true.
const Timeout = 5 * time.Minute

// The first and the longest time between two evaluations of a condition. Many tests poll at the same time: polling more
// often would take processor time from the work that they wait for.
const (
	intervalMin = time.Millisecond
	intervalMax = 250 * time.Millisecond
)

var errFalse = errors.New("it is still false")

// Until evaluates condition until it is true. After [Timeout] it fails the test and reports what it waited for.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	For(t, what, func() error {
		if condition() {
			return nil
		}
		return errFalse
	})
}

// For calls try until it returns nil. After [Timeout] it fails the test and reports what it waited for and the last
// error.
func For(t testing.TB, what string, try func() error) {
	t.Helper()
	timeout := time.After(Timeout)
	for interval := intervalMin; ; interval = min(interval*3/2, intervalMax) {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-time.After(interval):
		case <-timeout:
			t.Fatalf("timed out after %s waiting until %s: %v", Timeout, what, err)
		}
	}
}

// NoGoroutines waits until only goroutines that the options ignore are left. Some goroutines end slightly later than
// the work that they belong to, and on a busy machine this takes a while.
func NoGoroutines(t testing.TB, options ...goleak.Option) {
	t.Helper()
	For(t, "all goroutines have ended", func() error { return goleak.Find(options...) })
}

// Main is a TestMain: it runs the tests, waits like [NoGoroutines], and ends the process.
func Main(m *testing.M, options ...goleak.Option) {
	code := m.Run()
	if code == 0 {
		left := goleak.Find(options...)
		for end := time.Now().Add(Timeout); left != nil && time.Now().Before(end); {
			left = goleak.Find(options...)
		}
		if left != nil {
			fmt.Fprintln(os.Stderr, left)
			code = 1
		}
	}
	os.Exit(code)
}

// tries is how often [Quick] measures at most.
const tries = 5

// Quick fails the test unless measure takes at most limit. Other work on the machine can only make a measurement
// slower. So the fastest of a few measurements counts, and usually the first one is enough.
func Quick(t testing.TB, what string, limit time.Duration, measure func() time.Duration) {
	t.Helper()
	var all []time.Duration
	for range tries {
		took := measure()
		if took <= limit {
			return
		}
		all = append(all, took)
	}
	t.Errorf("%s takes %v, want at most %s", what, all, limit)
}
