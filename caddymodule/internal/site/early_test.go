package site

import (
	"crypto/tls"
	"net/http"
	"testing"
)

// TestIsEarly: repeated and invalid values of Early-Data count as 1 (RFC 8470, 5.1). Some proxies write 0 if data was
// not early.
func TestIsEarly(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"0"}, false},
		{[]string{"0", " 0, 0 "}, false},
		{[]string{"1"}, true},
		{[]string{"1", "1"}, true},
		{[]string{"1, 1"}, true},
		{[]string{"0, 1"}, true},
		{[]string{"0", "1"}, true},
		{[]string{"", "1"}, true},
		{[]string{"1,"}, true},
		{[]string{"?1"}, true},
		{[]string{"true"}, true},
	} {
		r := &http.Request{Header: http.Header{"Early-Data": c.lines}}
		if got := IsEarly(r); got != c.want {
			t.Errorf("Early-Data %q: %v", c.lines, got)
		}
	}
	for _, complete := range []bool{false, true} {
		if got := IsEarly(&http.Request{TLS: &tls.ConnectionState{HandshakeComplete: complete}}); got == complete {
			t.Errorf("a handshake that is complete (%v): %v", complete, got)
		}
	}
}
