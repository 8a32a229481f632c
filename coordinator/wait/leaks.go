package wait

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// NoGoroutines waits until no goroutines are left but those that the options ignore. Some
// end a moment after what they work for has ended, and on a busy machine the moment is long.
func NoGoroutines(t testing.TB, options ...goleak.Option) {
	t.Helper()
	For(t, "all goroutines have ended", func() error { return goleak.Find(options...) })
}

// Main is a TestMain: it runs the tests, waits as [NoGoroutines] does, and ends the process.
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
