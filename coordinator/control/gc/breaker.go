package gc

import (
	"context"
	"fmt"
)

// breakerFloor is how many archives may have no row, regardless of their share, without stopping a cycle. In a small
// installation, a few leftovers can be most of the archives.
const breakerFloor = 20

// MaxShare is the largest share of all archives that may belong to no workspace of the database. If the share is
// larger, and there are more than breakerFloor such archives, the database is probably a wrong or restored one, and the
// cycle ends with a [CircuitBreakerError].
const MaxShare = 0.5

// CircuitBreakerError means that a cycle was stopped because an implausible share of all archives belongs to no
// workspace. Nothing was deleted.
//
// A cycle does not delete such archives in any case. But rows are never deleted either, so many such archives mean that
// the database does not belong to the bucket, or is older than the bucket. Then the other rows cannot be trusted either
// when they say that an archive is superseded or that its workspace is deleted. The number of deleted workspaces has no
// influence.
type CircuitBreakerError struct {
	// Unknown is how many of the Archives have no row.
	Unknown, Archives int
	// Workspaces is how many rows the database has.
	Workspaces int64
}

// Error explains the implausible numbers and the operator's options.
func (e *CircuitBreakerError) Error() string {
	return fmt.Sprintf("no archive is deleted: %d of %d archives belong to no workspace of this database, which has "+
		"%d; that is a larger share than %g and looks like another or an older database than the "+
		"bucket's, so the other archives are not judged by it either. Check that the settings database and s3 "+
		"(endpoint, bucket, prefix) belong together. caddy codehub gc lists the archives, and can run one cycle all the same",
		e.Unknown, e.Archives, e.Workspaces, MaxShare)
}

// checkShare returns a [CircuitBreakerError] if an implausible share of all archives has no row, or if there are
// archives but no rows at all. If the request overrides the breaker, it returns nil.
func (c *cycle) checkShare(ctx context.Context) error {
	unknown, all := c.report.Unknown, c.report.Archives
	implausible := unknown > breakerFloor && float64(unknown) > MaxShare*float64(all)
	if all == 0 || !implausible && unknown < all {
		return nil
	}
	rows, err := c.opts.Store.CountWorkspaces(ctx)
	if err != nil {
		return err
	}
	if !c.request.Force && (implausible || rows == 0) {
		return &CircuitBreakerError{Unknown: unknown, Archives: all, Workspaces: rows}
	}
	return nil
}
