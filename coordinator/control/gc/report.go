package gc

import "go.uber.org/zap"

// Report is what a cycle found and did.
type Report struct {
	// Objects were listed; Foreign of them do not have the name of an archive or a
	// commit marker and were left alone.
	Objects, Foreign int
	// Archives is how many archives the other objects belong to. No workspace needs Orphans of
	// them, and this cycle would delete Due archives. These are orphans whose delay has passed, and
	// on command those that are reported.
	Archives, Orphans, Due int
	// Unknown archives belong to no workspace of the database, Newer ones do not fit the
	// workspace's row. Both are kept.
	Unknown, Newer int
	// Deleted archives were deleted. Spared ones were due, but a workspace needed them
	// again just before the deletion. Failed ones could not be deleted.
	Deleted, Spared, Failed int
	// Uploads were begun too long ago and have been aborted; a dry run only counts them.
	Uploads int
}

// log writes one line for the cycle, with stable keys, and a warning when the database
// and the bucket do not fit.
func (r Report) log(log *zap.Logger) {
	log.Info("collected archives",
		zap.Int("archives", r.Archives), zap.Int("foreign_objects", r.Foreign),
		zap.Int("orphans", r.Orphans), zap.Int("due", r.Due),
		zap.Int("unknown", r.Unknown), zap.Int("newer", r.Newer),
		zap.Int("deleted", r.Deleted), zap.Int("spared", r.Spared), zap.Int("failed", r.Failed),
		zap.Int("aborted_uploads", r.Uploads))
	if r.Unknown+r.Newer > 0 {
		log.Warn("archives are kept that do not fit the database: it may be another or an older one than "+
			"the bucket's; "+
			`"caddy codehub gc --dry-run" lists them, and with --unknown they are deleted`,
			zap.Int("without_workspace", r.Unknown), zap.Int("newer_than_the_workspace", r.Newer))
	}
}
