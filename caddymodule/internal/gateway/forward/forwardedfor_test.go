package forward

import (
	"net/http"
	"slices"
	"testing"
)

// Addresses before the client's own in X-Forwarded-For are made up.
func TestTrimForwardedFor(t *testing.T) {
	for _, c := range []struct {
		lines  []string
		client string
		want   []string
	}{
		{[]string{"192.0.2.1"}, "192.0.2.1", []string{"192.0.2.1"}},
		{[]string{"6.6.6.6, 192.0.2.1"}, "192.0.2.1", []string{"192.0.2.1"}},
		{[]string{"6.6.6.6,192.0.2.1 ,10.0.0.1"}, "192.0.2.1", []string{"192.0.2.1, 10.0.0.1"}},
		{[]string{"6.6.6.6", "192.0.2.1", "10.0.0.1"}, "192.0.2.1", []string{"192.0.2.1, 10.0.0.1"}},
		{[]string{"192.0.2.1, 192.0.2.1, 10.0.0.1"}, "192.0.2.1", []string{"192.0.2.1, 10.0.0.1"}},
		{[]string{"6.6.6.6, 192.0.2.1:1234"}, "192.0.2.1", []string{"192.0.2.1:1234"}},
		{[]string{"::1, [2001:db8::1]:80, 10.0.0.1"}, "2001:db8::1", []string{"[2001:db8::1]:80, 10.0.0.1"}},
		{[]string{"6.6.6.6, ::ffff:192.0.2.1"}, "192.0.2.1", []string{"::ffff:192.0.2.1"}},
		// Caddy may be configured to take the client's address from another header, or from any position in the list.
		{[]string{"6.6.6.6, 192.0.2.1"}, "6.6.6.6", []string{"6.6.6.6, 192.0.2.1"}},
		{[]string{"6.6.6.6, 192.0.2.1"}, "192.0.2.9", []string{"6.6.6.6, 192.0.2.1"}},
		{[]string{"6.6.6.6, x"}, "", []string{"6.6.6.6, x"}},
		{nil, "192.0.2.1", nil},
	} {
		h := http.Header{}
		if c.lines != nil {
			h["X-Forwarded-For"] = slices.Clone(c.lines)
		}
		if trimForwardedFor(h, c.client); !slices.Equal(h["X-Forwarded-For"], c.want) {
			t.Errorf("%q of %s: got %q, want %q", c.lines, c.client, h["X-Forwarded-For"], c.want)
		}
	}
}
