package version

import (
	"testing"

	"github.com/codehub/gateway/storagejob/contract"
)

func TestString(t *testing.T) {
	defer func(before string) { revision = before }(revision)
	for set, want := range map[string]string{"": "+dev", "82b487a3c1d2-dirty": "+82b487a3c1d2-dirty"} {
		if revision = set; String() != contract.Release+want {
			t.Errorf("built from %q, it is %s", set, String())
		}
	}
}
