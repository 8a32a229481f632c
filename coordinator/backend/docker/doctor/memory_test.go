package doctor

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/reclaim"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// TestWhatBecomesOfMemory: a remote engine is given as the reason, and no reason is a fault.
func TestWhatBecomesOfMemory(t *testing.T) {
	d, err := New(spec.Options{Host: "tcp://127.0.0.1:1", Installation: "test", Image: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	found, err := checks{Doctor: d}.checkMemory(t.Context())
	if err != nil || len(found) != 1 || found[0].Level != check.LevelOK || !strings.Contains(found[0].Text, errRemote.Error()) {
		t.Errorf("%+v, %v", found, err)
	}
	if f := memory(reclaim.ErrSlowSwap); f.Level != check.LevelOK || !strings.Contains(f.Text, "zswap is off") {
		t.Errorf("%+v", f)
	}
	if f := memory(nil); f.Level != check.LevelOK || !strings.Contains(f.Text, "goes to compressed swap") {
		t.Errorf("%+v", f)
	}
}
