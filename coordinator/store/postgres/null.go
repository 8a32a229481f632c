package postgres

import "time"

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
