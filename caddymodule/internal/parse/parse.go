// Package parse reads the text of settings. Each parser stores the meaning of the text where the setting's owner wants
// it. If the text has no meaning, the parser says what to write instead. It must not know which settings there are.
package parse

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/docker/go-units"

	"github.com/codehub/gateway/coordinator/setting"
)

// Parser reads the text of a setting, stores its meaning where the setting's owner
// wants it, and checks it.
type Parser func(text string) error

// Check checks a setting after its text has been read and its meaning stored. Its error says what is wrong, and what to
// write instead.
type Check func(text string) error

// read returns a parser that stores what parse returns and then applies the checks.
func read[T any](dst *T, parse func(string) (T, error), checks []Check) Parser {
	return func(text string) (err error) {
		if *dst, err = parse(text); err != nil {
			return err
		}
		for _, c := range checks {
			if err := c(text); err != nil {
				return err
			}
		}
		return nil
	}
}

// Owner returns a check by the package that owns a value. validate is that package's function; of its errors, the check
// reports those about the setting with that name. Rules belong to their owner; the adapter only adds the names of the
// setting and the line.
func Owner(validate func() error, name string) Check {
	return func(string) error { return errors.Join(setting.About(validate(), name)...) }
}

func Text(dst *string, checks ...Check) Parser {
	return read(dst, func(s string) (string, error) { return s, nil }, checks)
}

// Duration accepts durations of at least min.
func Duration(dst *time.Duration, min time.Duration, checks ...Check) Parser {
	return read(dst, func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err == nil && d < min {
			err = fmt.Errorf("%s is too short: the least is %s", s, min)
		}
		return d, err
	}, checks)
}

// Integer accepts whole numbers; an int must fit in 32 bits, because the
// database stores it.
func Integer[T int | int64](dst *T, checks ...Check) Parser {
	return read(dst, func(s string) (T, error) {
		bits := 64
		if _, isInt := any(*dst).(int); isInt {
			bits = 32
		}
		n, err := strconv.ParseInt(s, 10, bits)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return 0, fmt.Errorf("%s is out of range", s)
		case err != nil:
			return 0, fmt.Errorf("%q is not a whole number", s)
		}
		return T(n), nil
	}, checks)
}

func Fraction(dst *float64, checks ...Check) Parser {
	return read(dst, func(s string) (float64, error) {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			err = fmt.Errorf("%q is not a fraction: write for example 0.5", s)
		}
		return n, err
	}, checks)
}

// Percent accepts a share such as 85%, and off for 0.
func Percent(dst *float64, checks ...Check) Parser {
	return read(dst, func(s string) (float64, error) {
		if s == "off" {
			return 0, nil
		}
		text, ok := strings.CutSuffix(s, "%")
		n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if !ok || err != nil || !(n > 0 && n <= 100) {
			return 0, fmt.Errorf("%q is not a percentage: write for example 85%%, or off", s)
		}
		return n / 100, nil
	}, checks)
}

func Size(dst *int64, checks ...Check) Parser { return read(dst, parseSize, checks) }

func CPUs(dst *int64, checks ...Check) Parser { return read(dst, parseCPUs, checks) }

func Bool(dst *bool) Parser { return read(dst, parseBool, nil) }

// parseDuration reads a duration as Caddy does (15s, 2h, 1d); a bare number is
// seconds (SPEC 10).
func parseDuration(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil {
		if d := n * float64(time.Second); math.Abs(d) < math.MaxInt64 { // also false for NaN
			return time.Duration(d), nil
		}
	} else if d, err := caddy.ParseDuration(s); err == nil {
		return d, nil
	}
	return 0, fmt.Errorf("%q is not a duration: write for example 15s, 10m, 2h, 1d or a number of seconds", s)
}

// parseSize reads a number of bytes with an optional unit. K, M, G, T and P count in powers of 1024, with or without
// "B", "iB" (as Docker writes them) or "i" (as Kubernetes does) after them.
func parseSize(s string) (int64, error) {
	text := s
	if strings.HasSuffix(text, "i") || strings.HasSuffix(text, "I") {
		text += "B"
	}
	n, err := units.RAMInBytes(text)
	// Docker's parser does not notice an overflow. It then returns one of these numbers.
	if err != nil || n < 0 || n == math.MaxInt64 {
		return 0, fmt.Errorf("%q is not a size: write for example 512MiB, 2GiB or a number of bytes", s)
	}
	return n, nil
}

// parseCPUs reads a number of processors, such as 0.5 or 2, as billionths.
func parseCPUs(s string) (int64, error) {
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(n) || math.Abs(n) > 1<<20 {
		return 0, fmt.Errorf("%q is not a number of processors: write for example 0.5 or 2", s)
	}
	return int64(n * 1e9), nil
}

func parseBool(s string) (bool, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, fmt.Errorf("%q is not a boolean: write true or false", s)
}

// OneOf accepts these words.
func OneOf(words ...string) Check {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return fmt.Errorf("%q is not known: write %s", s, strings.Join(words, " or "))
	}
}
