package wait

import (
	"testing"
	"time"
)

// tries is how often [Quick] measures at most.
const tries = 5

// Quick fails the test unless what measure does takes at most limit. Whatever else the
// machine does makes it take longer, never shorter: so the quickest of a few measurements
// counts, and usually the first one is enough.
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
