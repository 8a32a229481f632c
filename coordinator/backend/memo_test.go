package backend_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMemoRetainsWhatWasSeen(t *testing.T) {
	var m backend.Memo[int]
	has := func(of workspace.ID, id string, want bool) {
		t.Helper()
		if v, ok := m.Get(of, id); ok != want || want && v != 1 {
			t.Errorf("%s of %s is %d, %t", id, of, v, ok)
		}
	}
	for _, of := range []workspace.ID{"one", "two"} {
		m.Put(of, "a"+string(of), 1)
		m.Put(of, "b"+string(of), 1)
	}
	m.Retain([]workspace.ID{"one", "three"}, map[string]struct{}{"bone": {}, "c": {}})
	has("one", "aone", false)
	has("one", "bone", true)
	has("two", "atwo", true) // the listing did not include it
	m.Retain(nil, map[string]struct{}{"btwo": {}})
	has("one", "bone", false)
	has("two", "atwo", false)
	has("two", "btwo", true)
	m.Drop("two", "btwo")
	has("two", "btwo", false)
}
