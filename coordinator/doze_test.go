package coordinator

import (
	"testing"
	"time"
)

// TestUnknownFor: a use that the leader knew when it let the workspace doze never counts as unknown, however soon
// workspaces doze.
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
