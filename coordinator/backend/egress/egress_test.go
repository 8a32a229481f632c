package egress

import (
	"strings"
	"testing"
)

func TestDestinations(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5":            "10.0.0.5/32 0",
		"10.0.0.0/8":          "10.0.0.0/8 0",
		"10.0.0.5:443":        "10.0.0.5/32 443",
		"10.0.0.0/8:53":       "10.0.0.0/8 53",
		"fd00::5":             "fd00::5/128 0",
		"fd00::/8":            "fd00::/8 0",
		"[fd00::5]:443":       "fd00::5/128 443",
		"[fd00::/8]:443":      "fd00::/8 443",
		"::ffff:10.0.0.5":     "10.0.0.5/32 0",
		"git.example.com:443": "",
		"10.0.0.5:":           "",
		"10.0.0.5:0":          "",
		"10.0.0.5:65536":      "",
		"10.0.0.5/8":          "",
		"[fd00::5]":           "",
		"fe80::1%eth0":        "",
		"10.0.0.5:443:443":    "",
		"[10.0.0.5:443":       "",
		"":                    "",
	} {
		d, err := parseDestination(text)
		got := ""
		if err == nil {
			got = d.Prefix.String() + " " + portText(d.Port)
		}
		if got != want || err != nil && !strings.Contains(err.Error(), "write 10.0.0.5") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func portText(p uint16) string {
	switch p {
	case 0:
		return "0"
	case 53:
		return "53"
	}
	return "443"
}
