package decision

import (
	"regexp"
	"testing"
)

// TestEverythingHasAName that a search finds.
func TestEverythingHasAName(t *testing.T) {
	name := regexp.MustCompile(`^[a-z_]+$`)
	for a := Proxy; a <= ShowWake; a++ {
		if !name.MatchString(a.String()) {
			t.Errorf("answer %d is called %q", a, a)
		}
	}
	for k := Program; k <= Subresource; k++ {
		if !name.MatchString(k.String()) {
			t.Errorf("client kind %d is called %q", k, k)
		}
	}
}
