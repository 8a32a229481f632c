package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Action is one call of an actuator. SPEC 3 lists the actions of each operation, and their order.
type Action string

// The actions. Each is idempotent, and a fresh observation follows each.
const (
	ActNothing            Action = ""
	ActProvision          Action = "provision"
	ActStart              Action = "start"
	ActDeleteContainer    Action = "delete_container"
	ActStartArchive       Action = "archive"
	ActStartRestore       Action = "restore"
	ActCreateEmptyArchive Action = "create_empty_archive"
	// ActDropArchivedVolume deletes the volume whose content archive_key holds.
	ActDropArchivedVolume Action = "drop_archived_volume"
	// ActDropStaleVolume deletes the remains of an interrupted restore, while the archive exists.
	ActDropStaleVolume Action = "drop_stale_volume"
	// ActDeleteVolume deletes a volume that was given up: by its owner's deletion of the workspace, or by the
	// choice of a recovery.
	ActDeleteVolume Action = "delete_volume"
	// ActFreeze freezes the container of an idle workspace, and ActThaw resumes it.
	ActFreeze Action = "freeze"
	ActThaw   Action = "thaw"
	// ActDeleteJobs removes storage jobs that have ended or that no operation needs.
	ActDeleteJobs Action = "delete_jobs"
)

// Destructive reports whether the action removes or overwrites something, so that the leadership is checked once more
// before it (SPEC 5). A restore is destructive: it makes the volume equal to an archive and discards its previous
// content.
func (a Action) Destructive() bool {
	switch a {
	case ActDeleteContainer, ActDropArchivedVolume, ActDropStaleVolume, ActDeleteVolume, ActDeleteJobs, ActStartRestore:
		return true
	}
	return false
}

// Policy holds the limits that decisions depend on.
type Policy struct {
	// Timeouts is how long each operation may take without progress.
	Timeouts map[workspace.Operation]time.Duration
	// WaitLimit is how long a workspace without an intact volume waits for an object store that refuses.
	WaitLimit time.Duration
	// KeepDeleted is how long the only copy of a deleted workspace's files stays. Zero means until an
	// administrator deletes it.
	KeepDeleted time.Duration
	// MaxRetry is the number of failures after which an operation ends in ERROR.
	MaxRetry int
	// ProgressEvery is how often the progress of one operation may be saved.
	ProgressEvery time.Duration
	// FullDisk is set while the disk of the homes has no room for another home.
	FullDisk *workspace.FullDisk
	// NewOpID creates the id of a new archive or restore: a UUID.
	NewOpID func() string
}

// Decision is the result of reconciling one workspace. The caller saves Next first, and carries out Action only
// if that succeeded. Therefore an operation is always claimed before its actuator runs, and an archive's key is always
// saved before its volume is deleted (SPEC 1, contracts 4 and 8).
type Decision struct {
	// Next is the row after the decision. Changed means that Next differs from the row before the decision, so that it
	// must be saved.
	Next workspace.Workspace
	// Action is the actuator to call after the save, or [ActNothing].
	Action  Action
	Changed bool
	// OnlyProgress means that only the progress changed: no next step follows.
	OnlyProgress bool
	// VolumeOpID is the incarnation of the volume that the action deletes (SPEC 12.11).
	VolumeOpID string
	// Archived is the record for the archive at archive_key, or nil.
	Archived *workspace.ArchiveRecord
	// Ask is the question to ask the object store first. Unless it is empty, do not save the decision: make it again
	// with the answer.
	Ask Ask
	// Job is the kind of storage job that the decision begins, or for which it begins an operation; empty for none. If
	// there is no place for it, do not save the decision: make it again with [workspace.Observation.Queued].
	Job workspace.JobKind
	// Retry is when to look again, counted from now; zero means at the usual time.
	Retry time.Duration
}

// Reconcile decides the next step for one workspace. It is pure: the same values give the same decision, except
// for the ids of new operations.
//
// backingOff means that an earlier attempt failed and its retry is not due yet. Conditions are still updated
// and timeouts still apply, but nothing is started.
func Reconcile(now time.Time, w workspace.Workspace, o workspace.Observation, backingOff bool, policy Policy) Decision {
	p := newPlanner(now, w, o, backingOff, policy)
	for _, s := range steps {
		if action, ends := s.do(p); ends {
			return p.decision(action)
		}
	}
	return p.decision(ActNothing)
}
