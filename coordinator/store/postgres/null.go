package postgres

import (
	"strings"
	"time"
	"unicode/utf8"
)

// Takes reports whether a text can be a value of type text: UTF-8 without NUL.
func Takes(text string) bool { return utf8.ValidString(text) && !strings.ContainsRune(text, 0) }

// NullText writes the empty string as NULL.
func NullText[T ~string](s T) *string {
	if s == "" {
		return nil
	}
	v := string(s)
	return &v
}

// NullTime writes the zero time as NULL.
func NullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
