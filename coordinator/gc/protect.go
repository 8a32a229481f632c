package gc

import (
	"strings"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// parse splits an object's key into the archive that it belongs to and that
// archive's workspace. An archive and its commit marker belong to the same one. ok
// is false for a foreign object, which does not have the name of either and is never
// touched.
func parse(object string) (key string, id workspace.ID, ok bool) {
	key = strings.TrimSuffix(object, contract.MetaSuffix)
	first, rest, _ := strings.Cut(key, "/")
	op, _, _ := strings.Cut(rest, "/")
	id, err := workspace.ParseID(first)
	if err != nil {
		return "", "", false
	}
	// An operation's id has the same format as a workspace's.
	if _, err := workspace.ParseID(op); err != nil || key != id.ArchiveKey(op) {
		return "", "", false
	}
	return key, id, true
}

// Reason says why an archive is kept or why it is an orphan.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// OrphanUnknown: the database has no such workspace.
	OrphanUnknown Reason = "workspace not found"
	// OrphanDeleted: the workspace's owner has deleted it.
	OrphanDeleted Reason = "workspace deleted"
	// KeptUnhealthy: the workspace is in ERROR or violates an invariant; all its
	// archives may be needed to repair it.
	KeptUnhealthy Reason = "workspace in error"
	// KeptOperation: the archive belongs to the current or last operation.
	KeptOperation Reason = "archive of the last operation"
	// KeptCurrent: the archive is the workspace's data.
	KeptCurrent Reason = "current archive"
	// OrphanSuperseded: a later archive has replaced it.
	OrphanSuperseded Reason = "superseded"
)

// orphan reports whether an archive is an orphan for this reason.
func (r Reason) orphan() bool {
	return r == OrphanUnknown || r == OrphanDeleted || r == OrphanSuperseded
}

// judge decides about one archive. The order of the rules is their priority (SPEC
// 7): deletion comes before everything that protects.
func judge(key string, id workspace.ID, p store.Protection, known bool) Reason {
	switch {
	case !known:
		return OrphanUnknown
	case p.Deleted:
		return OrphanDeleted
	case p.Unhealthy:
		return KeptUnhealthy
	case p.ArchiveOpID != "" && key == id.ArchiveKey(p.ArchiveOpID):
		return KeptOperation
	case p.ArchiveKey != "" && key == p.ArchiveKey:
		return KeptCurrent
	}
	return OrphanSuperseded
}
