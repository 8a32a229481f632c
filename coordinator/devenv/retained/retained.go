// Package retained finds what a value keeps of workspaces, for tests that have ended all of
// them: whatever is kept then would be kept for ever.
//
// It owns the walk over a value. It must not change anything, and looks at no type of other
// modules.
package retained

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

const module = "github.com/codehub/gateway/"

// In returns the maps by workspace that are not empty, as the paths to them, in v and whatever
// it points to. Nothing may change them meanwhile. What is behind an atomic pointer, a channel or
// a function is not looked at.
func In(v any) []string {
	w := walk{seen: make(map[uintptr]bool)}
	w.value(reflect.TypeOf(v).String(), reflect.ValueOf(v))
	slices.Sort(w.found)
	return w.found
}

type walk struct {
	seen  map[uintptr]bool
	found []string
}

func (w *walk) value(path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() && !w.seen[v.Pointer()] {
			w.seen[v.Pointer()] = true
			w.value(path, v.Elem())
		}
	case reflect.Interface:
		w.value(path, v.Elem())
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), module) {
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
