package workspace

import "time"

// Waiting tells programs and people why a workspace makes no progress.
type Waiting struct {
	// Reason is a CamelCase word, and Message a sentence for administrators that names the cause and the remedy.
	// Message may be a server's text; all other texts about a wait come from the other fields.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Since is when the wait for this reason began.
	Since time.Time `json:"since"`
	// Before is, for WaitJobQueue, how many jobs come first. If it is above [ExactlyBefore], there may be more of them.
	Before int `json:"before,omitempty"`
	// Done of Total bytes of the image are pulled, for WaitPullingImage. Total is 0 while it is unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// For WaitPullingImage, Cause is why the last attempt to pull the image failed, one of the causes below, and Tries
	// is the number of failures in a row. Cause is empty before the first failure, and while bytes arrive.
	Cause string `json:"cause,omitempty"`
	Tries int    `json:"tries,omitempty"`
	// Image is the reference of the image that those attempts pull, as in a start; empty if the engine itself makes the
	// attempts.
	Image string `json:"image,omitempty"`
	// For WaitDiskPressure, Percent is how much of the disk is in use, and Count is how many workspaces are being
	// archived to make room.
	Percent int `json:"percent,omitempty"`
	Count   int `json:"count,omitempty"`
	// Port is where the application does not answer. For WaitNotAnswering, Ports are the listening ports that can be
	// reached from outside, and LocalPorts are those that only the container itself can reach.
	Port       int   `json:"port,omitempty"`
	Ports      []int `json:"ports,omitempty"`
	LocalPorts []int `json:"local_ports,omitempty"`
	// For WaitArchiveFailed, Subject is the owner's own file that changed while it was being archived.
	Subject string `json:"subject,omitempty"`
}

// FullDisk is why no home is brought to the disk.
type FullDisk struct {
	// Percent is how much of the disk is in use, and Leaving is how many workspaces are being archived to make room.
	Percent, Leaving int
}

// ExactlyBefore is the largest number of earlier jobs that is shown exactly.
const ExactlyBefore = 9

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
	// WaitKeptUntilGivenUp: that volume stays without a limit, because its files were not given
	// up. Either no delay is configured, or it is in doubt whose they are.
	WaitKeptUntilGivenUp = "KeptUntilGivenUp"
	WaitPullingImage     = "PullingImage"
	WaitUnhealthy        = "Unhealthy"
	// WaitNotAnswering: the container runs, and nothing answers at its port.
	WaitNotAnswering = "NotAnswering"
	// WaitUnschedulable: the cluster has no node for it. WaitVolume: its volume is not bound or
	// attached. WaitQuota: a quota of the namespace is used up. WaitNodeLost: its node does not
	// report. WaitTerminating: it was told to end and does not.
	WaitUnschedulable = "Unschedulable"
	WaitVolume        = "WaitingForVolume"
	WaitQuota         = "QuotaExceeded"
	WaitNodeLost      = "NodeLost"
	WaitTerminating   = "Terminating"
	// WaitEvicted: the container or the storage job was ended from outside, such as by the drain of a node, and is
	// started again.
	WaitEvicted = "Evicted"
	// WaitContainer: the node cannot make the container yet.
	WaitContainer = "ContainerNotCreated"
	WaitPaused    = "Paused"
	// WaitDiskPressure: there is no room on the disk of the homes for another home.
	WaitDiskPressure = "DiskPressure"
	// WaitJobQueue: the maximum number of storage jobs is running; Before others come first.
	WaitJobQueue = "JobQueued"
	// WaitArchiveLocked: the archive is encrypted to keys that are not in the settings.
	WaitArchiveLocked = "ArchiveLocked"
	// WaitJobImage: the image of storage jobs cannot be pulled, or is not of this release.
	WaitJobImage = "JobImage"
	// WaitEgressRules: the firewall rules of workspaces are not in place, and nothing starts without them.
	WaitEgressRules = "EgressRules"
	// WaitConflict: the container runs on a volume that the row does not know.
	WaitConflict = "Conflict"
	// WaitInternalError: the program has failed with this workspace, and leaves it as it is.
	WaitInternalError = "InternalError"
)

// Why an image cannot be pulled for now. An image that can never be pulled is an error instead:
// [ReasonImagePullFailed].
const (
	CauseUnreachable = "unreachable"  // the registry, or the name of its host, was not found
	CauseTimeout     = "timeout"      // it did not answer in time
	CauseRateLimit   = "rate_limit"   // it gives out no more for now
	CauseServerError = "server_error" // it failed itself
	CauseUnknown     = "unknown"
)

// FailedPull reports whether the workspace waits for another attempt to pull its image.
func (w *Waiting) FailedPull() bool { return w != nil && w.Reason == WaitPullingImage && w.Cause != "" }

// InternalError returns the wait of a workspace with which the program failed at the time since.
func InternalError(err error, since time.Time) *Waiting {
	return &Waiting{Reason: WaitInternalError, Message: "the program has failed with this workspace and leaves it as it is: " +
		err.Error(), Since: since}
}

// timeless has the waits for resources from outside. If a reason maps to true, the time of the wait never counts
// against the limits of the operation (SPEC 3). A missing reason means that the operation itself makes no progress.
var timeless = map[string]bool{
	WaitNodeLost:      true, // until the machine is back, or an administrator says that it is off
	WaitTerminating:   true,
	WaitUnschedulable: true, // a cluster that adds nodes needs its time
	WaitVolume:        true,
	WaitQuota:         true,
	WaitPullingImage:  true, // what will never be pulled is a failure, and no wait
	WaitEvicted:       true,
	WaitBackendAway:   true,
	WaitJobQueue:      true, // its turn comes
	WaitJobImage:      true, // the engine and the settings must give it
	WaitEgressRules:   true,
	WaitInternalError: true,  // the program must be corrected
	WaitContainer:     false, // the node has all that it needs
}

// Unlimited reports whether an operation waits for this however long it takes. Nothing counts
// as a failure meanwhile.
func (w *Waiting) Unlimited() bool { return w != nil && timeless[w.Reason] }

// LimitsBegin is when the limits of the operation in progress began to count. They began with the operation, or at the
// end of its last wait that does not count against them. LimitsBegin is zero without an operation.
func (w *Workspace) LimitsBegin() time.Time {
	if w.OpStartedAt.IsZero() || w.HomeCtx.ResumedAt.Before(w.OpStartedAt) {
		return w.OpStartedAt
	}
	return w.HomeCtx.ResumedAt
}
