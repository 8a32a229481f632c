package postgres

import (
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// Text reads NULL as the empty string.
type Text string

// ScanText implements [pgtype.TextScanner].
func (t *Text) ScanText(v pgtype.Text) error {
	*t = Text(v.String)
	return nil
}

// Instant reads NULL as the zero time, and everything else in UTC.
type Instant time.Time

// ScanTimestamptz implements [pgtype.TimestamptzScanner].
func (t *Instant) ScanTimestamptz(v pgtype.Timestamptz) error {
	if !v.Valid {
		*t = Instant{}
		return nil
	}
	*t = Instant(v.Time.UTC())
	return nil
}

// Number reads NULL as 0.
type Number int64

// ScanInt64 implements [pgtype.Int64Scanner].
func (n *Number) ScanInt64(v pgtype.Int8) error {
	*n = Number(v.Int64)
	return nil
}

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
