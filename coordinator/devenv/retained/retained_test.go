package retained_test

import (
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/devenv/retained"
	"github.com/codehub/gateway/coordinator/workspace"
)

type inner struct{ byID map[workspace.ID]int }

type outer struct {
	memo  backend.Memo[string]
	inner any
	parts []*inner
	self  *outer
	names map[string]*inner
}

func TestIn(t *testing.T) {
	o := &outer{inner: inner{}, names: map[string]*inner{"a": {}}}
	o.self = o
	if found := retained.In(o); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	o.memo.Put("w", "c", "x")
	full := inner{map[workspace.ID]int{"w": 1, "v": 2}}
	o.inner, o.parts, o.names["a"] = full, []*inner{nil, &full}, &inner{full.byID}
	want := []string{
		"*retained_test.outer.inner.byID: 2 workspaces", "*retained_test.outer.memo.values: 1 workspaces",
		"*retained_test.outer.names[].byID: 2 workspaces", "*retained_test.outer.parts[].byID: 2 workspaces",
	}
	if found := retained.In(o); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
