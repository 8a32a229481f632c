package parse

import (
	"testing"
	"time"
)

// FuzzValues asserts that every parsed value is in its valid range, and that no text can be parsed in two ways.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"15s", "1d", "-1", "1e400", "NaN", "0x10", "512MiB", "9223372036854775808", "0.5", "85%", "off", "1_000", " 1 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if size, err := parseSize(s); err == nil && size < 0 {
			t.Errorf("%q is %d bytes", s, size)
		}
		if n, err := parseCPUs(s); err == nil && (n > 1<<50 || n < -1<<50) {
			t.Errorf("%q are %d billionths", s, n)
		}
		d, err := parseDuration(s)
		if err == nil {
			if again, err := parseDuration(d.String()); err != nil || again != d {
				t.Errorf("%q is %s, which is %s, %v", s, d, again, err)
			}
		}
		var kept time.Duration
		if err := Duration(&kept, time.Second)(s); err == nil && kept < time.Second {
			t.Errorf("%q is taken as %s, less than a second", s, kept)
		}
		var share float64
		if err := Percent(&share)(s); err == nil && !(share >= 0 && share <= 1) {
			t.Errorf("%q is the share %g", s, share)
		}
	})
}
