package scarcity

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
)

func TestWhenMemoryIsShort(t *testing.T) {
	for _, c := range []struct {
		at, used, stalled float64 // in percent
		was, short        bool
	}{
		{at: 90, used: 89},
		{at: 90, used: 90, short: true},
		{at: 90, used: 100, short: true},
		{at: 90, used: 89, was: true, short: true},
		{at: 90, used: 86, was: true, short: true},
		{at: 90, used: 84, was: true},
		{at: 90, used: 46, stalled: 9},
		{at: 90, used: 46, stalled: 10, short: true},
		{at: 90, used: 46, stalled: 100, short: true},
		{at: 90, used: 44, stalled: 100}, // the waiting program has a limit of its own
		{at: 90, used: 44, stalled: 100, was: true},
		{at: 90, used: 46, stalled: 6, was: true, short: true},
		{at: 90, used: 46, stalled: 4, was: true},
		{at: 90, used: 86, stalled: 4, was: true, short: true},
		{at: 90, used: 84, stalled: 6, was: true, short: true},
		{at: 2, used: 0, was: true},
		{at: 100, used: 99},
		{at: 0, used: 100, stalled: 100},
		{at: 0, used: 100, stalled: 100, was: true},
	} {
		m := backend.Memory{Total: 100, Available: 100 - int64(c.used), Stalled: c.stalled / 100}
		if got := (Settings{At: c.at / 100}).short(m, c.was); got != c.short {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if DefaultSettings().short(backend.Memory{}, true) {
		t.Error("a host of which nothing is known is short of memory")
	}
}

func TestSettings(t *testing.T) {
	for at, ok := range map[float64]bool{DefaultAt: true, 0: true, 1: true, -0.1: false, 1.1: false} {
		err := Settings{At: at}.Validate()
		if (err == nil) != ok || err != nil && !(strings.HasPrefix(err.Error(), "memory_pressure: ") && strings.Contains(err.Error(), "or off")) {
			t.Errorf("%v: %v", at, err)
		}
	}
}
