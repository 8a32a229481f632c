package gc

import (
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
)

// Report is the findings and results of a cycle.
type Report struct {
	// Objects were listed. Foreign counts those without the name of an archive or a commit marker; they were
	// left alone.
	Objects, Foreign int
	// Archives is how many archives the other objects belong to. No workspace needs Orphans of them. Due of
	// them this cycle would delete: orphans whose delay has passed, and on command those that are reported.
	Archives, Orphans, Due int
	// Unknown archives belong to no workspace of the database, Newer ones do not fit the workspace's row. Both
	// are kept.
	Unknown, Newer int
	// Deleted archives were deleted. Spared ones were due, but a workspace needed them again just before the
	// deletion. Failed ones could not be deleted.
	Deleted, Spared, Failed int
	// Uploads were begun too long ago and have been aborted; a dry run only counts them.
	Uploads int
}

// log writes one line for the cycle, with stable keys, and a warning if the database and the bucket do not fit.
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
