package site_test

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

func TestLocalPath(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "/",
		"/":                     "/",
		"/a?b=c&d=//x":          "/a?b=c&d=//x",
		"/a#b":                  "/a#b",
		"//evil.com":            "/",
		"///evil.com":           "/",
		"/\\evil.com":           "/",
		"/a\\b":                 "/",
		"\\\\evil.com":          "/",
		"http://evil.com":       "/",
		"javascript:alert(1)":   "/",
		" /a":                   "/",
		"/\t/evil.com":          "/",
		"/\n/evil.com":          "/",
		"/\x00":                 "/",
		"evil.com":              "/",
		"/%2f/evil.com":         "/%2f/evil.com",
		"/%zz":                  "/",
		"/w/x/?folder=/home/me": "/w/x/?folder=/home/me",
	} {
		if got := site.LocalPath(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
