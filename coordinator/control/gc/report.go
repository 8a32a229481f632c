package gc

import (
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
)

// Report is the findings and results of a cycle.
type Report struct {
	// Objects is how many objects were listed. Foreign counts those without the name of an archive or a commit marker;
	// they were left alone.
	Objects, Foreign int
	// Archives is how many archives the other objects belong to. Orphans is how many of them no workspace needs. Due is
	// how many of the archives this cycle would delete: orphans whose delay has passed and, on command, also reported
	// archives.
	Archives, Orphans, Due int
	// Unknown is how many archives belong to no workspace of the database. Newer is how many belong to a workspace
	// whose row they do not fit. Both are kept.
	Unknown, Newer int
	// Deleted is how many archives were deleted. Spared is how many were due, but were needed by a workspace again just
	// before the deletion. Failed is how many could not be deleted.
	Deleted, Spared, Failed int
	// Uploads is how many unfinished uploads were so old that they were aborted; a dry run only counts them.
	Uploads int
}

// log writes one line for the cycle, with stable keys, and a warning if the database and the bucket do not match.
func (r Report) log(log *zap.Logger) {
	log.Info("collected archives",
		zap.Int(logkey.Archives, r.Archives), zap.Int(logkey.ForeignObjects, r.Foreign),
		zap.Int(logkey.Unneeded, r.Orphans), zap.Int(logkey.Due, r.Due),
		zap.Int(logkey.WithoutWorkspace, r.Unknown), zap.Int(logkey.Newer, r.Newer),
		zap.Int(logkey.Deleted, r.Deleted), zap.Int(logkey.Spared, r.Spared), zap.Int(logkey.Failed, r.Failed),
		zap.Int(logkey.AbortedUploads, r.Uploads))
	if r.Unknown+r.Newer > 0 {
		log.Warn("archives are kept that do not fit the database: it may be another or an older one than "+
			"the bucket's; "+
			"caddy codehub gc lists them, and can delete them",
			zap.Int(logkey.WithoutWorkspace, r.Unknown), zap.Int(logkey.Newer, r.Newer))
	}
}
