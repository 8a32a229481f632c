// Package wait lets tests wait for a condition that gives no signal. Where there is
// a signal, such as a channel, tests wait on that instead.
package wait

import (
	"testing"
	"time"
)

// Timeout is how long [Until] waits. It is far above what any condition takes on a
// busy machine: reaching it means that the condition never becomes true.
const Timeout = 60 * time.Second

// interval is the time between two evaluations of a condition.
const interval = 2 * time.Millisecond

// Until evaluates condition until it is true. It fails the test, naming what was
// waited for, after [Timeout].
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	timeout := time.After(Timeout)
	for !condition() {
		select {
		case <-tick.C:
		case <-timeout:
			t.Fatalf("timed out after %s waiting until %s", Timeout, what)
		}
	}
}
