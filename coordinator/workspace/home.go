package workspace

import "time"

// HomeContext is what the controller remembers about a workspace's home and its containers between two
// decisions. Column home_ctx stores it as one flat JSON object: SQL and older releases read its keys.
type HomeContext struct {
	VolumeRecord
	RestoreRecord
	AttemptRecord
	ChoiceRecord
	ContainerRecord
}

// VolumeRecord describes the home volume and its content.
type VolumeRecord struct {
	// RestoreMarker is the key of the archive that the volume's content started from. The volume holds
	// the workspace's data only while this equals archive_key (SPEC 12.1).
	RestoreMarker string `json:"restore_marker,omitempty"`
	// Dirty is set before a container may write to the volume. From then on the archive, if there is
	// one, may be older than the volume (SPEC 12.2).
	Dirty bool `json:"dirty,omitempty"`
	// VolumeOpID is the operation that created the volume, and the label that the volume carries. A
	// volume with another label does not belong to this row (SPEC 12.9).
	VolumeOpID string `json:"volume_op_id,omitempty"`
	// ForeignVolumeOpID is the label of a volume that this row does not know, as last seen before the
	// deletion. The user who deletes the workspace gives up that volume, too.
	ForeignVolumeOpID string `json:"foreign_volume_op_id,omitempty"`
	// ConflictDesired is the desired state at the time when the container was found running on a volume that the row
	// does not know. It becomes RUNNING when a user requests that state afterwards. A desired state that differs from
	// it was requested by a person who had seen the workspace (SPEC 12.9).
	ConflictDesired DesiredState `json:"conflict_desired,omitempty"`
	// Fingerprint is a state of the volume that is known to be in an archive.
	Fingerprint Fingerprint `json:"fingerprint,omitzero"`
}

// RestoreRecord describes the restore in progress.
type RestoreRecord struct {
	// RestoreOpID identifies the restore, so that a job left over from an earlier restore is never taken for a job of
	// this one.
	RestoreOpID string `json:"restore_op_id,omitempty"`
	// RestoreVolumeAt is when the restore last asked for its volume, by the database's clock.
	RestoreVolumeAt time.Time `json:"restore_volume_at,omitzero"`
	// StaleVolumeOpID is the label of the volume that the restore replaces: the remains of an earlier
	// restore of this row.
	StaleVolumeOpID string `json:"stale_volume_op_id,omitempty"`
}

// AttemptRecord counts attempts in a row and records when their limits began to count.
type AttemptRecord struct {
	// Crashes counts the containers that exited soon after their start (SPEC 12.5).
	Crashes int `json:"crashes,omitempty"`
	// Deferred counts the operations that were postponed without an error. The pause before the next
	// attempt grows with it.
	Deferred int `json:"deferred,omitempty"`
	// Unread counts the storage jobs whose results were lost.
	Unread int `json:"unread,omitempty"`
	// ResumedAt is when an operation last ended a wait that does not count against its limits. The
	// limits start over at that time.
	ResumedAt time.Time `json:"resumed_at,omitzero"`
}

// ChoiceRecord remembers which choices about the files have been carried out.
type ChoiceRecord struct {
	// Newest is the newest archive known to the person who chose another archive or an empty home. It is therefore
	// expected to be younger than the chosen one. The next new archive clears it.
	Newest string `json:"newest,omitempty"`
	// Replaced is the archive that a [Revert] replaced, which is the way back. The next new archive
	// clears it, too.
	Replaced string `json:"replaced,omitempty"`
	// RecoveryID is the last [Recovery] that was carried out.
	RecoveryID string `json:"recovery_id,omitempty"`
	// RevertID is the last [Revert] that has ended. RevertProblem is why that revert was not carried out; empty if it
	// was.
	RevertID      string `json:"revert_id,omitempty"`
	RevertProblem string `json:"revert_problem,omitempty"`
}

// ContainerRecord describes the last containers. Its times are by the engine's clock.
type ContainerRecord struct {
	// Exited is the exit time of the container that existed before the current start. A container with another exit
	// time belongs to the current start.
	Exited time.Time `json:"exited,omitzero"`
	// Dozed is the start time of the container that this program froze last. It is saved before the
	// freeze, so that this container never stays frozen by accident. A container that a person has
	// paused stays paused.
	Dozed time.Time `json:"dozed,omitzero"`
	// Found is the port at which the application answered when it did not answer at the configured one.
	Found FoundPort `json:"found_port,omitzero"`
}

// HoldContent records that the volume's content started from the archive under key. changed says that
// the volume may be newer than that archive.
func (h *HomeContext) HoldContent(key string, changed bool) {
	h.RestoreMarker, h.Dirty = key, changed
}

// ForgetContent records that the volume does not hold the workspace's data.
func (h *HomeContext) ForgetContent() {
	h.RestoreMarker, h.Fingerprint = "", Fingerprint{}
}

// BeginRestore names the restore opID and the volume that it creates. Each restore creates its own volume. The remains
// of an earlier restore, such as the given volume, are removed and never overwritten. A row from before the restore
// therefore does not know the new volume and leaves it alone. Until the restore completes, the volume is not the
// workspace's data (SPEC 12.1).
func (h *HomeContext) BeginRestore(opID string, volume *Volume) {
	h.RestoreMarker = ""
	h.RestoreOpID, h.RestoreVolumeAt = opID, time.Time{}
	switch {
	case volume == nil:
		h.StaleVolumeOpID, h.VolumeOpID = h.VolumeOpID, opID
	case volume.OpID != "":
		h.StaleVolumeOpID, h.VolumeOpID = volume.OpID, opID
	}
}
