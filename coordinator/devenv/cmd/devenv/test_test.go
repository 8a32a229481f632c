package main

import (
	"slices"
	"testing"
)

// gotestsum shows failed tests last, and no benchmarks.
func TestGoTest(t *testing.T) {
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"./..."}, []string{"gotestsum", "--format", "pkgname", "--hide-summary", "skipped", "--", "./..."}},
		{[]string{"-v", "-run", "X", "./a"}, []string{"gotestsum", "--format", "standard-verbose", "--hide-summary", "skipped", "--", "-v", "-run", "X", "./a"}},
		{[]string{"-run", "^$", "-bench", "Gateway", "./a"}, []string{"go", "test", "-run", "^$", "-bench", "Gateway", "./a"}},
		{[]string{"-bench=.", "./a"}, []string{"go", "test", "-bench=.", "./a"}},
	} {
		if got := goTest(t.Context(), "/repo", "gotestsum", c.args); !slices.Equal(got.Args, c.want) || got.Dir != "/repo" {
			t.Errorf("%q runs %q in %s", c.args, got.Args, got.Dir)
		}
	}
}
