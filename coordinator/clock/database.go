package clock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
)

const (
	// measuredFor is how long a measurement is used. After at most this time, this process notices that the database's
	// clock was set, or that another server has taken over.
	measuredFor = time.Second
	// LargestSkew is the largest difference between two machines' clocks that causes no warning.
	LargestSkew = 2 * time.Second
)

// Source is a server that reports its time. *store.Store implements it.
type Source interface {
	Now(ctx context.Context) (time.Time, error)
}

// Database is the database's clock as this process knows it: the last reported time plus the time that has passed here
// since. The wall clock of this process has no influence (SPEC 12.13). It is safe for concurrent use.
type Database struct {
	source Source
	skewed *outage.Reporter
	wall   func() time.Time

	mu     sync.Mutex // guards the fields below
	theirs time.Time
	at     Moment // when theirs was known; zero before the first measurement
}

// NewDatabase returns the clock of the database, which is unknown before the first Measure. A difference from this
// process's clock is logged, and has no other effect.
func NewDatabase(source Source, log *zap.Logger) *Database {
	return &Database{source: source, wall: time.Now, skewed: outage.New(log, zap.WarnLevel,
		"the clock of this machine differs from the database's, which decides; synchronise them (NTP)",
		"the clock of this machine agrees with the database's again")}
}

// Measure asks the database for its time, unless it has just done so. It asks immediately if a clock of this machine
// has jumped forward: the machine may have been paused.
func (d *Database) Measure(ctx context.Context) error {
	d.mu.Lock()
	recent := !d.at.IsZero() && d.at.Elapsed() < measuredFor
	d.mu.Unlock()
	if recent {
		return nil
	}
	before := d.wall()
	theirs, err := d.source.Now(ctx)
	if err != nil {
		return err
	}
	at, after := Now(), d.wall()
	d.mu.Lock()
	d.theirs, d.at = theirs, at
	d.mu.Unlock()
	if skew := Skew(before, theirs, after); skew.Abs() > LargestSkew {
		d.skewed.Failed(skewError(skew))
	} else {
		d.skewed.Recovered()
	}
	return nil
}

// Now returns the database's time in the database's precision, so that a saved row equals the same row when it is read
// back. It is behind the server's time by at most the time that the last answer took to arrive, and never ahead, so
// that nothing ends too soon. It must not be called before Measure has returned nil once.
func (d *Database) Now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.theirs.Add(d.at.steady()).UTC().Truncate(time.Microsecond)
}

// Skew returns how far a server's clock is ahead of this process's; it is negative if the server's clock is behind. The
// server reported its time between two times of this process.
func Skew(before, theirs, after time.Time) time.Duration {
	switch {
	case theirs.Before(before):
		return theirs.Sub(before)
	case theirs.After(after):
		return theirs.Sub(after)
	}
	return 0
}

// skewError is how far the database's clock is ahead.
type skewError time.Duration

func (e skewError) Error() string {
	if e < 0 {
		return fmt.Sprintf("the database's clock is %s behind", time.Duration(-e).Round(time.Millisecond))
	}
	return fmt.Sprintf("the database's clock is %s ahead", time.Duration(e).Round(time.Millisecond))
}
