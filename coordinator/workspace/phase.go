package workspace

// Phase is the observed state of a workspace (SPEC 1, contract 5).
type Phase string

// The phases. The first four are ordered; the others are outside the order.
const (
	PhasePending  Phase = "PENDING"
	PhaseArchived Phase = "ARCHIVED"
	PhaseStandby  Phase = "STANDBY"
	PhaseRunning  Phase = "RUNNING"
	PhaseError    Phase = "ERROR"
	PhaseDeleting Phase = "DELETING"
	PhaseDeleted  Phase = "DELETED"
)

// Level is the phase's place in the order PENDING < ARCHIVED < STANDBY < RUNNING,
// or -1 for a phase outside it.
func (p Phase) Level() int {
	switch p {
	case PhasePending:
		return 0
	case PhaseArchived:
		return 5
	case PhaseStandby:
		return 10
	case PhaseRunning:
		return 20
	}
	return -1
}

// DesiredState is the state that the controller brings a workspace to.
type DesiredState string

// The desired states. DELETED is set together with deleted_at.
const (
	DesiredArchived DesiredState = "ARCHIVED"
	DesiredStandby  DesiredState = "STANDBY"
	DesiredRunning  DesiredState = "RUNNING"
	DesiredDeleted  DesiredState = "DELETED"
)

// Operation is the one operation in progress on a workspace (SPEC 3).
type Operation string

// The operations.
const (
	OpNone               Operation = "NONE"
	OpCreateEmptyArchive Operation = "CREATE_EMPTY_ARCHIVE"
	OpProvisioning       Operation = "PROVISIONING"
	OpRestoring          Operation = "RESTORING"
	OpStarting           Operation = "STARTING"
	OpStopping           Operation = "STOPPING"
	OpArchiving          Operation = "ARCHIVING"
	OpDeleting           Operation = "DELETING"
)

// ErrorReason is why an operation failed (SPEC 3).
type ErrorReason string

// The reasons.
const (
	ReasonTimeout                ErrorReason = "Timeout"
	ReasonRetryExceeded          ErrorReason = "RetryExceeded"
	ReasonActionFailed           ErrorReason = "ActionFailed"
	ReasonDataLost               ErrorReason = "DataLost"
	ReasonUnreachable            ErrorReason = "Unreachable"
	ReasonImagePullFailed        ErrorReason = "ImagePullFailed"
	ReasonContainerWithoutVolume ErrorReason = "ContainerWithoutVolume"
	ReasonArchiveCorrupted       ErrorReason = "ArchiveCorrupted"
	// ReasonConflict: reality holds something that the database does not know and that
	// might be newer (SPEC 12.9).
	ReasonConflict ErrorReason = "Conflict"
)

// Terminal reports whether the reason ends automatic retries immediately. The generated column watched of the schema
// repeats this rule; a test of package store compares the two.
func (r ErrorReason) Terminal() bool {
	switch r {
	case ReasonActionFailed, ReasonUnreachable, "":
		return false
	}
	return true
}

// EndsWhenReady reports whether the reason only means that the container did not come up in time. A container that is
// ready on the workspace's data then ends the error (SPEC 3). An error about the data stays until a person has decided.
// The query of the store's candidates repeats this rule.
func (r ErrorReason) EndsWhenReady() bool {
	return r == ReasonTimeout || r == ReasonRetryExceeded || r == ReasonImagePullFailed
}

// DoubtsData reports whether the reason means that it is unknown where the newest content is. Then no volume is taken
// for a mere leftover.
func (r ErrorReason) DoubtsData() bool {
	return r == ReasonDataLost || r == ReasonConflict || r == ReasonContainerWithoutVolume
}
