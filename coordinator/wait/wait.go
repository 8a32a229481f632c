// Package wait lets tests wait for a condition that gives no signal. Where there is
// a signal, such as a channel, tests wait on that instead.
package wait

import (
	"errors"
	"testing"
	"time"
)

// Timeout is how long a test waits. It is far above what any condition takes on a busy
// machine: reaching it means that the condition never becomes true.
const Timeout = 90 * time.Second

// The time between two evaluations of a condition, at first and at most.
const (
	intervalMin = time.Millisecond
	intervalMax = 50 * time.Millisecond
)

var errFalse = errors.New("it is still not so")

// Until evaluates condition until it is true. It fails the test, naming what was
// waited for, after [Timeout].
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	For(t, what, func() error {
		if condition() {
			return nil
		}
		return errFalse
	})
}

// For calls try until it returns nil. It fails the test after [Timeout], with what was
// waited for and the last error.
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
