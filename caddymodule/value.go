package codehub

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// Value is a setting as it is written: a literal, or text with Caddy
// placeholders such as `{env.NAME}` and `{file./path}`, which are replaced when
// the configuration is provisioned and never stored. A placeholder that turns out
// empty, because its variable is not set, means the default. In JSON a Value is a
// string; numbers and booleans are accepted too.
type Value string

// UnmarshalJSON accepts a string, a number or a boolean.
func (v *Value) UnmarshalJSON(b []byte) error {
	var any any
	if err := json.Unmarshal(b, &any); err != nil {
		return err
	}
	switch x := any.(type) {
	case string:
		*v = Value(x)
	case nil:
		*v = ""
	case float64, bool:
		*v = Value(b)
	default:
		return fmt.Errorf("want a string, a number or a boolean, not %s", b)
	}
	return nil
}

// literal reports whether the value can be judged without looking at the
// environment, that is while the Caddyfile is read.
func (v Value) literal() bool { return !strings.ContainsAny(string(v), "{}") }

// resolve replaces the placeholders. An unknown placeholder is an error: it is a
// misspelling, and must not silently become the default.
func (v Value) resolve(repl *caddy.Replacer) (string, error) {
	s, err := repl.ReplaceOrErr(string(v), false, true)
	if err != nil {
		return "", fmt.Errorf("%w: write {env.NAME} for an environment variable or {file./path} for a file", err)
	}
	return strings.TrimSpace(s), nil
}

// parseDuration reads a duration as Caddy does (15s, 2h, 1d); a bare number is
// seconds (SPEC 10).
func parseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration: write for example 15s, 10m, 2h, 1d or a number of seconds", s)
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		d := n * float64(time.Second)
		if math.IsNaN(d) || math.Abs(d) >= math.MaxInt64 {
			return 0, bad
		}
		return time.Duration(d), nil
	}
	d, err := caddy.ParseDuration(s)
	if err != nil {
		return 0, bad
	}
	return d, nil
}

// parseSize reads a number of bytes with an optional unit. K, M and G count in
// powers of 1024, as Docker does, with or without "B" or "iB" behind them.
func parseSize(s string) (int64, error) {
	text := strings.ToLower(s)
	text = strings.TrimSuffix(strings.TrimSuffix(text, "b"), "i")
	unit := int64(1)
	for suffix, u := range map[string]int64{"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = strings.TrimSpace(rest), u
			break
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n*float64(unit) >= math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: write for example 512MiB, 2GiB or a number of bytes", s)
	}
	return int64(n * float64(unit)), nil
}

// parseCPUs reads a number of processors, such as 0.5 or 2, as billionths.
func parseCPUs(s string) (int64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || n < 0 || n > 1<<20 {
		return 0, fmt.Errorf("%q is not a number of processors: write for example 0.5 or 2", s)
	}
	return int64(n * 1e9), nil
}

func parseInteger(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a switch: write true or false", s)
}

// form is how a setting's text is read and what it must satisfy. It stores the
// result where its setting wants it.
type form func(text string) error

func textForm(dst *string, checks ...func(string) error) form {
	return func(s string) error {
		*dst = s
		return check(s, checks)
	}
}

func durationForm(dst *time.Duration, min time.Duration) form {
	return func(s string) (err error) {
		if *dst, err = parseDuration(s); err == nil && *dst < min {
			err = fmt.Errorf("%s is too short: the least is %s", s, min)
		}
		return err
	}
}

func integerForm[T int | int64](dst *T, min, max int64) form {
	return func(s string) error {
		n, err := parseInteger(s)
		if err == nil && (n < min || n > max) {
			err = fmt.Errorf("%d is out of range: from %d to %d", n, min, max)
		}
		*dst = T(n)
		return err
	}
}

func sizeForm(dst *int64) form {
	return func(s string) (err error) { *dst, err = parseSize(s); return err }
}

func cpusForm(dst *int64) form {
	return func(s string) (err error) { *dst, err = parseCPUs(s); return err }
}

func boolForm(dst *bool) form {
	return func(s string) (err error) { *dst, err = parseBool(s); return err }
}

func check(s string, checks []func(string) error) error {
	var errs []error
	for _, c := range checks {
		if err := c(s); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
