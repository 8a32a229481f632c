package gc

import (
	"context"
	"fmt"
)

// breakerFloor is how many archives a cycle may delete whatever their share. In a small
// installation, a few deleted workspaces are most of the archives.
const breakerFloor = 20

// CircuitBreakerError says that a cycle was stopped because it would have deleted
// an implausible share of all archives. Nothing was deleted.
type CircuitBreakerError struct {
	// Due is how many archives the cycle would have deleted, of Archives.
	Due, Archives int
	// Workspaces is how many rows the database has.
	Workspaces int64
	// MaxShare is the share that was exceeded.
	MaxShare float64
}

// Error says what is implausible, and what an operator can do about it.
func (e *CircuitBreakerError) Error() string {
	if e.Workspaces == 0 {
		return fmt.Sprintf("no archive is deleted: the database has no workspaces, but the bucket has %d archives; "+
			"check that the settings database and s3 (bucket, prefix) belong together", e.Archives)
	}
	return fmt.Sprintf("no archive is deleted: %d of %d archives are due for deletion, a larger share than gc_max_share (%g); "+
		"check that the settings database and s3 (bucket, prefix) belong together. To delete that many, raise gc_max_share "+
		"in the coordinator block (COORDINATOR_GC_MAX_SHARE) for one cycle", e.Due, e.Archives, e.MaxShare)
}

// checkShare returns a [CircuitBreakerError] for a cycle that would delete an
// implausible share of all archives.
func (c *cycle) checkShare(ctx context.Context) error {
	if c.report.Archives == 0 {
		return nil
	}
	rows, err := c.opts.Store.CountWorkspaces(ctx)
	if err != nil {
		return fmt.Errorf("counting workspaces: %w", err)
	}
	share := float64(c.report.Due) / float64(c.report.Archives)
	if rows == 0 || c.report.Due > breakerFloor && share > c.settings.MaxShare {
		return &CircuitBreakerError{Due: c.report.Due, Archives: c.report.Archives, Workspaces: rows, MaxShare: c.settings.MaxShare}
	}
	return nil
}
