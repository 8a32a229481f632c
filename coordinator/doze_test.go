package coordinator

import (
	"testing"
	"time"
)

// TestUnknownFor: the use after which a workspace dozed is none that the leader did not know of, however soon it dozes.
func TestUnknownFor(t *testing.T) {
	for doze, want := range map[time.Duration]time.Duration{
		0:               unwritten,
		time.Second:     0,
		2 * time.Second: 0,
		5 * time.Minute: 298 * time.Second,
	} {
		if got := unknownFor(doze); got != want {
			t.Errorf("ttl doze %s: a use within %s, want %s", doze, got, want)
		}
	}
}
