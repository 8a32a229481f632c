package reconcile_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// retainedIn finds all non-empty maps whose keys are workspaces, in v and everything to which v points. It returns
// their paths. Nothing may change these maps meanwhile. It does not follow atomic pointers, channels or functions.
func retainedIn(v any) []string {
	w := retainedWalk{seen: make(map[uintptr]bool)}
	w.value(reflect.TypeOf(v).String(), reflect.ValueOf(v))
	slices.Sort(w.found)
	return w.found
}

type retainedWalk struct {
	seen  map[uintptr]bool
	found []string
}

func (w *retainedWalk) value(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !w.seen[v.Pointer()] {
			w.seen[v.Pointer()] = true
			w.value(path, v.Elem())
		}
	case reflect.Interface:
		w.value(path, v.Elem())
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), "github.com/codehub/gateway/") {
			return
		}
		for i := range v.NumField() {
			w.value(path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			w.value(path+"[]", v.Index(i))
		}
	case reflect.Map:
		if v.Type().Key() == reflect.TypeFor[workspace.ID]() && v.Len() > 0 {
			w.found = append(w.found, fmt.Sprintf("%s: %d workspaces", path, v.Len()))
		}
		for entries := v.MapRange(); entries.Next(); {
			w.value(path+"[]", entries.Key())
			w.value(path+"[]", entries.Value())
		}
	}
}

type retainedInner struct{ byID map[workspace.ID]int }

type retainedOuter struct {
	memo  backend.Memo[string]
	inner any
	parts []*retainedInner
	self  *retainedOuter
	names map[string]*retainedInner
}

func TestRetainedIn(t *testing.T) {
	o := &retainedOuter{inner: retainedInner{}, names: map[string]*retainedInner{"a": {}}}
	o.self = o
	if found := retainedIn(o); len(found) != 0 {
		t.Errorf("found %q", found)
	}
	o.memo.Put("w", "c", "x")
	full := retainedInner{map[workspace.ID]int{"w": 1, "v": 2}}
	o.inner, o.parts, o.names["a"] = full, []*retainedInner{nil, &full}, &retainedInner{full.byID}
	want := []string{
		"*reconcile_test.retainedOuter.inner.byID: 2 workspaces", "*reconcile_test.retainedOuter.memo.values: 1 workspaces",
		"*reconcile_test.retainedOuter.names[].byID: 2 workspaces", "*reconcile_test.retainedOuter.parts[].byID: 2 workspaces",
	}
	if found := retainedIn(o); !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
}
