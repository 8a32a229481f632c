package parse_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/setting"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15s": 15 * time.Second, "2h": 2 * time.Hour, "1d": 24 * time.Hour, "1h30m": 90 * time.Minute,
		"600": 600 * time.Second, "0.5": 500 * time.Millisecond,
	} {
		var got time.Duration
		if err := parse.Duration(&got, 0)(text); err != nil || got != want {
			t.Errorf("%q: got %s, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "5 minutes", "1e400", "NaN", "99999999999999"} {
		var got time.Duration
		if err := parse.Duration(&got, 0)(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1024": 1024, "512MiB": 512 << 20, "2GiB": 2 << 30, "2g": 2 << 30, "1.5 GB": 3 << 29, "64k": 64 << 10,
		// As Kubernetes writes them.
		"2Gi": 2 << 30, "512Mi": 512 << 20, "1.5Gi": 3 << 29, "64Ki": 64 << 10, "1Ti": 1 << 40, "1Pi": 1 << 50, "20 Gi": 20 << 30, "2gi": 2 << 30,
	} {
		var got int64
		if err := parse.Size(&got)(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "much", "-1", "5 apples", "9999999T", "NaN", "Inf", "-0.5k", "0x10", "1e30",
		"2i", "i", "Gi", "2Bi", "2GiBi", "2Gii", "2Gi B", "9999999Ti", "-1Gi"} {
		var got int64
		if err := parse.Size(&got)(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: got %d, %v, want an error that names it", text, got, err)
		}
	}
}

func TestProcessorsFractionsAndBooleans(t *testing.T) {
	var cpus int64
	var share float64
	var yes bool
	for text, parser := range map[string]parse.Parser{"0.5": parse.CPUs(&cpus), "0.25": parse.Fraction(&share), "ON": parse.Bool(&yes)} {
		if err := parser(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	if cpus != 500_000_000 || share != 0.25 || !yes {
		t.Errorf("got %d, %g, %t", cpus, share, yes)
	}
	for text, parser := range map[string]parse.Parser{"many": parse.CPUs(&cpus), "half": parse.Fraction(&share), "maybe": parse.Bool(&yes)} {
		if err := parser(text); err == nil || !strings.Contains(err.Error(), "write ") {
			t.Errorf("%q: %v does not say what to write", text, err)
		}
	}
}

// An int is stored in the database, which has 32 bits for it.
func TestWholeNumbers(t *testing.T) {
	var small int
	var large int64
	if err := errors.Join(parse.Integer(&small)("-7"), parse.Integer(&large)("9000000000")); err != nil || small != -7 || large != 9_000_000_000 {
		t.Errorf("got %d, %d, %v", small, large, err)
	}
	for _, text := range []string{"", "1.5", "many", "9000000000"} {
		if err := parse.Integer(&small)(text); err == nil {
			t.Errorf("%q is %d", text, small)
		}
	}
}

// The check reports an error of the value's owner without the owner's own name for the value. It does not report the
// owner's errors about other values.
func TestARuleOfTheOwner(t *testing.T) {
	var s string
	check := parse.Owner(func() error {
		return errors.Join(setting.Errorf("docker host", "has no scheme"), errors.Join(setting.Errorf("docker network", "is too long")))
	}, "docker host")
	if err := parse.Text(&s, check)("x"); err == nil || err.Error() != "has no scheme" || s != "x" {
		t.Errorf("got %q, %v", s, err)
	}
	if err := parse.Text(&s, parse.OneOf("path", "host"))("port"); err == nil || err.Error() != `"port" is not known: write path or host` {
		t.Errorf("got %v", err)
	}
}
