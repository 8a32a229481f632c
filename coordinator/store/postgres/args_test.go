package postgres_test

import (
	"reflect"
	"testing"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// TestArgs: a statement is parsed only at its first use. The second use follows the same rules.
func TestArgs(t *testing.T) {
	const sql, want = `SELECT @b, '@no', @a::text, @b`, `SELECT $1, '@no', $2::text, $1`
	for range 2 {
		for name, a := range map[string]postgres.Args{
			"one is missing":        {"a": 1},
			"one is too many":       {"a": 1, "b": 2, "c": 3},
			"one has another name":  {"a": 1, "c": 2},
			"there are none at all": {},
		} {
			if text, args, err := a.RewriteQuery(t.Context(), nil, sql, nil); err == nil {
				t.Errorf("%s: %s with %v", name, text, args)
			}
		}
		for _, a := range []postgres.Args{{"a": 1, "b": "x"}, {"a": nil, "b": "y"}} {
			text, args, err := a.RewriteQuery(t.Context(), nil, sql, nil)
			if text != want || !reflect.DeepEqual(args, []any{a["b"], a["a"]}) || err != nil {
				t.Errorf("%v gives %s with %v, %v", a, text, args, err)
			}
		}
	}
}
