package workspace

import "time"

// Waiting is why a workspace does not get on, for programs and people.
type Waiting struct {
	// Reason is a CamelCase word, Message a sentence that says for what and what to do.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the wait for this reason began.
	Since time.Time `json:"since"`
}

// The reasons for waiting.
const (
	WaitStoreAway       = "StoreAway"
	WaitStoreRefuses    = "StoreRefuses"
	WaitBucketMismatch  = "BucketMismatch"
	WaitBackendAway     = "BackendAway"
	WaitBackendMismatch = "BackendMismatch"
	// WaitArchiveFailed and WaitDeletionFailed: the last attempt failed, the next one
	// follows.
	WaitArchiveFailed  = "ArchiveFailed"
	WaitDeletionFailed = "DeletionFailed"
	// WaitKeptUntilDeleted: the volume of a deleted workspace is the only copy of its
	// files and stays for the delay.
	WaitKeptUntilDeleted = "KeptUntilDeleted"
	WaitPullingImage     = "PullingImage"
	WaitUnhealthy        = "Unhealthy"
	WaitPaused           = "Paused"
	// WaitConflict: the container runs on a volume that the row does not know.
	WaitConflict = "Conflict"
)
