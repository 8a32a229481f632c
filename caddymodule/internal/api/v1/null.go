package v1

import "time"

// orNull makes the empty text null.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

// timeOrNull makes the zero time null, and shows others in UTC.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// numberOrNull makes 0 null.
func numberOrNull(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
