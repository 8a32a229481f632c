package gc

import (
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Reason is why an archive is kept, reported or an orphan.
type Reason string

// The reasons to keep an archive.
const (
	// KeptUnhealthy: the workspace is in ERROR or violates an invariant, or its current archive is damaged. The repair
	// may need any of its archives.
	KeptUnhealthy Reason = "workspace in error"
	// KeptOperation: the archive belongs to the current or last operation.
	KeptOperation Reason = "archive of the last operation"
	// KeptCurrent: the archive is the workspace's data.
	KeptCurrent Reason = "current archive"
	// KeptReplaced: a user has gone back to an older archive. This archive was the current or the newest one before,
	// and lets the user undo that choice.
	KeptReplaced Reason = "replaced by an older archive"
	// KeptRetained: the archive is one of the most recent ones of its workspace, of which [Settings].Keep are kept.
	KeptRetained Reason = "one of the last archives"
	// KeptWithoutCurrent: the row of the workspace names no archive, so it is unknown whether this one holds the
	// workspace's data.
	KeptWithoutCurrent Reason = "the workspace has no current archive"
	// KeptCurrentMissing: the archive named by the row is missing from the bucket, or incomplete. The row may
	// be older than the bucket (SPEC 12.9).
	KeptCurrentMissing Reason = "the workspace's current archive is missing"
)

// The reasons to report an archive. They mean that the database does not belong to the bucket, or is older than the
// bucket. Such archives are deleted on command only.
const (
	// ReportedUnknown: the database has no such workspace. Rows are never deleted.
	ReportedUnknown Reason = "no workspace of this id"
	// ReportedNewer: the archive is younger than the workspace's current one.
	ReportedNewer Reason = "newer than the current archive"
	// ReportedEarlier: the archive is older than the workspace. Another workspace with the same id existed before,
	// because the same Idempotency-Key gives the same id. The database does not know that workspace.
	ReportedEarlier Reason = "older than the workspace"
	// ReportedDeletedNewer: the archive belongs to a deleted workspace that has newer ones. The row may be
	// older than an undeletion.
	ReportedDeletedNewer Reason = "workspace deleted, but it has newer archives"
	// ReportedDeletedMissing: the archive belongs to a deleted workspace, and the archive named by the workspace's row
	// is missing.
	ReportedDeletedMissing Reason = "workspace deleted, but its current archive is missing"
)

// The reasons to delete an archive.
const (
	// OrphanDeleted: the workspace's owner has deleted it.
	OrphanDeleted Reason = "workspace deleted"
	// OrphanSuperseded: a later archive has replaced it.
	OrphanSuperseded Reason = "superseded"
)

// orphan reports whether an archive is an orphan for this reason.
func (r Reason) orphan() bool { return r == OrphanDeleted || r == OrphanSuperseded }

// reported reports whether an archive is deleted on command only.
func (r Reason) reported() bool {
	switch r {
	case ReportedUnknown, ReportedEarlier, ReportedNewer, ReportedDeletedNewer, ReportedDeletedMissing:
		return true
	}
	return false
}

// comparison is what must be known about all archives of a workspace to judge each of them.
type comparison struct {
	// key is the row's archive_key at the time of the comparison.
	key string
	// current is when the complete archive under key was written; zero if there is none.
	current time.Time
	// until is when the youngest archive known to the row was written. That is the current archive or, if a user has
	// gone back to an older one, the archive that it replaced.
	until time.Time
	// newer means that there is a younger archive that the row does not know. It is also set if this is uncertain,
	// because the workspace has too many archives to keep in memory.
	newer bool
}

// compare looks for the row's archive among all archives of its workspace.
func compare(archives []listed, p store.Protection) comparison {
	c := comparison{key: p.ArchiveKey}
	for _, a := range archives {
		if a.key == p.ArchiveKey && a.complete() {
			c.current = a.modified
		}
	}
	c.until = c.current
	for _, a := range archives {
		if isReplaced(a, p) && a.complete() && a.modified.After(c.until) {
			c.until = a.modified
		}
	}
	for _, a := range archives {
		c.newer = c.newer || !own(a, p) && !a.modified.Before(c.until)
	}
	return c
}

// retain marks the most recent archives of a workspace, as many as keep says, if that is more than 1. They are the
// complete ones with the latest dates, except archives unknown to the row. If retain gets only some of the workspace's
// archives, it may mark too many, but never too few.
func retain(archives []listed, p store.Protection, c comparison, keep int) {
	if keep <= 1 {
		return // the newest archive then, the current one or the way back from it, has a rule of its own
	}
	var last []int
	for i, a := range archives {
		if a.complete() && (isCurrent(a, p) || isReplaced(a, p) || a.modified.Before(c.until)) {
			last = append(last, i)
		}
	}
	slices.SortStableFunc(last, func(a, b int) int { return archives[b].modified.Compare(archives[a].modified) })
	for _, i := range last[:min(keep, len(last))] {
		archives[i].retained = true
	}
}

// own reports whether the row knows the archive.
func own(a listed, p store.Protection) bool {
	return isCurrent(a, p) || isOperation(a, p) || isReplaced(a, p)
}

func isCurrent(a listed, p store.Protection) bool { return p.ArchiveKey != "" && a.key == p.ArchiveKey }

func isOperation(a listed, p store.Protection) bool {
	return p.ArchiveOpID != "" && a.key == a.id.ArchiveKey(p.ArchiveOpID)
}

// isEarlier reports whether the archive existed before the workspace. The clocks of database and store may
// differ.
func isEarlier(a listed, p store.Protection) bool {
	return !own(a, p) && !p.CreatedAt.IsZero() && a.modified.Before(p.CreatedAt.Add(-clock.LargestSkew))
}

// isReplaced reports whether a user has replaced the archive by an older one, and may go back to it.
func isReplaced(a listed, p store.Protection) bool {
	return p.Replaced != "" && (a.key == p.Replaced || a.key == p.Newest)
}

// judge decides about one archive. The order of the rules is their priority (SPEC 7):
//
//	no row                                        reported: unknown
//	older than the row, and nothing that it knows reported: earlier
//	marked as collected                           orphan: deleted, all of them; nothing brings it back
//	not deleted, in error or damaged              kept
//	not deleted, path of archive_op_id            kept
//	not deleted, archive_key                      kept
//	not deleted, the way back                     kept
//	no archive_key: not deleted                   kept
//	no archive_key: deleted                       orphan: deleted
//	archive_key is not in the bucket              kept; reported, if deleted
//	deleted, and an undeletion may need it        orphan: deleted; reported, if there are newer ones
//	younger than what the row knows, or as old    reported: newer
//	one of the last ones                          kept
//	else                                          orphan: superseded
func judge(a listed, p store.Protection, known bool, c comparison) Reason {
	switch {
	case !known:
		return ReportedUnknown
	case isEarlier(a, p) && (p.Deleted || !p.Unhealthy):
		return ReportedEarlier
	case !p.CollectedAt.IsZero():
		return OrphanDeleted
	case !p.Deleted && p.Unhealthy:
		return KeptUnhealthy
	case !p.Deleted && isOperation(a, p):
		return KeptOperation
	case !p.Deleted && isCurrent(a, p):
		return KeptCurrent
	case !p.Deleted && isReplaced(a, p):
		return KeptReplaced
	case p.ArchiveKey == "" && !p.Deleted:
		return KeptWithoutCurrent
	case p.ArchiveKey == "":
		return OrphanDeleted
	case c.current.IsZero() && p.Deleted:
		return ReportedDeletedMissing
	case c.current.IsZero():
		return KeptCurrentMissing
	case p.Deleted && needed(a, p) && c.newer:
		return ReportedDeletedNewer
	case p.Deleted && needed(a, p):
		return OrphanDeleted // until the deletion is final, this archive is deleted only together with the others
	case !a.modified.Before(c.until):
		return ReportedNewer
	case a.retained:
		return KeptRetained
	}
	return OrphanSuperseded
}

// needed reports whether an archive of a deleted workspace may be needed when its deletion is undone. That is so if the
// row names the archive, or if the archive is one of the last ones. If the workspace was in error or its current
// archive was damaged, any archive may be the best one left.
func needed(a listed, p store.Protection) bool { return own(a, p) || a.retained || p.Unhealthy }

// needsMark reports whether the workspace must be marked as collected before an archive with this reason is deleted.
// Without the mark the deletion of the workspace could still be undone, and the workspace would then need the archive.
func needsMark(r Reason, p store.Protection) bool {
	return p.Deleted && p.CollectedAt.IsZero() && r != OrphanSuperseded
}

// listed is an archive of the listing.
type listed struct {
	key      string
	id       workspace.ID
	size     int64 // UnknownSize when only its commit marker is listed
	modified time.Time
	marker   bool // its commit marker is listed
	retained bool // it is one of the last ones
}

// complete reports whether both the archive and its commit marker exist.
func (a listed) complete() bool { return a.marker && a.size != UnknownSize }
