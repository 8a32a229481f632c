package backend_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
)

func TestMemoRetainsWhatWasSeen(t *testing.T) {
	var m backend.Memo[int]
	m.Put("a", 1)
	m.Put("b", 2)
	m.Retain(map[string]struct{}{"b": {}, "c": {}})
	if _, ok := m.Get("a"); ok {
		t.Error("a is remembered although it was not seen")
	}
	if v, ok := m.Get("b"); !ok || v != 2 {
		t.Errorf("b is %d, %t", v, ok)
	}
}
