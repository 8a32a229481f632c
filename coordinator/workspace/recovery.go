package workspace

// RecoveryChoice is what happens to the data of a workspace that is recovered.
type RecoveryChoice string

// The choices (SPEC 12.9).
const (
	// RecoverRetry only clears the error: nothing about the data is in doubt.
	RecoverRetry RecoveryChoice = "retry"
	// RecoverVolume takes the volume that exists as the workspace's data.
	RecoverVolume RecoveryChoice = "volume"
	// RecoverArchive takes the archive Key.
	RecoverArchive RecoveryChoice = "archive"
	// RecoverEmpty starts with an empty home.
	RecoverEmpty RecoveryChoice = "empty"
)

// Recovery is one recovery. The controller carries each out once, by its ID.
type Recovery struct {
	ID     string         `json:"id"`
	Choice RecoveryChoice `json:"choice"`
	// Key is the archive of [RecoverArchive].
	Key string `json:"key,omitempty"`
	// Newest is the newest archive seen by the person who made the choice. A younger one ends the recovery's first
	// operation in Conflict.
	Newest string `json:"newest,omitempty"`
	// VolumeOpID is the operation that made the volume seen by the person who made the choice. ReplaceVolume reports
	// that its content is given up. Any other volume that exists ends [RecoverArchive] and [RecoverEmpty] in Conflict.
	VolumeOpID    string `json:"volume_op_id,omitempty"`
	ReplaceVolume bool   `json:"replace_volume,omitempty"`
}

// InUseInConflict reports whether people may be working in the workspace on a volume that its row does not know. Then
// the only ways out are a choice, or putting the workspace to sleep (SPEC 12.9).
func (w Workspace) InUseInConflict() bool {
	return w.Phase == PhaseRunning && w.Operation == OpNone && w.ErrorReason == "" && !w.Deleted() &&
		w.Waiting != nil && w.Waiting.Reason == WaitConflict
}

// NeedsRecovery returns the reason why the workspace needs a recovery: that of its phase ERROR, or [ReasonConflict]
// while it is in use in a conflict. It is empty for a workspace that needs none.
func (w Workspace) NeedsRecovery() ErrorReason {
	switch {
	case w.InUseInConflict():
		return ReasonConflict
	case w.Phase == PhaseError:
		return w.ErrorReason
	}
	return ""
}
