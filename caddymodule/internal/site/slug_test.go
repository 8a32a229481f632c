package site_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

func TestAlias(t *testing.T) {
	for _, c := range []struct{ name, user, want string }{
		{"project", "ann", "project--ann"},
		{"My Project (2)", "Ann.Lee@example.com", "my-project-2--ann-lee-example-com"},
		{"  --a--b-- ", "ann", "a-b--ann"},
		{"3000", "ann", "3000--ann"},
		{"프로젝트", "ann", ""},
		{"프로젝트 1", "ann", "1--ann"},
		{"project", "안", ""},
		{"Ünal", "x", "nal--x"},
		{strings.Repeat("a", 80), strings.Repeat("b", 80), strings.Repeat("a", 30) + "--" + strings.Repeat("b", 30)},
		{strings.Repeat("a", 29) + " b", "x", strings.Repeat("a", 29) + "--x"},
	} {
		if got := site.Alias(c.name, c.user); got != c.want || len(got) > 63 {
			t.Errorf("%q of %q: got %q, want %q", c.name, c.user, got, c.want)
		}
	}
}
