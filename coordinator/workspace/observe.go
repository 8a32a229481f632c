package workspace

import "time"

// Container is what the runtime says about a workspace's container.
type Container struct {
	// Running is true while the container's main process runs.
	Running bool
	// Ready is true when it may be given traffic: running, and not starting or
	// unhealthy where the image has a health check.
	Ready bool
	// Endpoint is the host:port at which the gateway reaches it; set when Ready.
	Endpoint string
	// ExitCode is meaningful when the container is not Running.
	ExitCode int
	// StartedAt and FinishedAt are the runtime's own times; zero when unknown.
	StartedAt, FinishedAt time.Time
	// Volume is false when the container does not mount the workspace's own volume.
	Volume bool
}

// JobKind tells which way a storage job moves data.
type JobKind string

// The kinds of storage job.
const (
	JobArchive JobKind = "archive"
	JobRestore JobKind = "restore"
)

// JobState is how far a storage job has come.
type JobState string

// The states of a storage job.
const (
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
)

// Job is what the runtime says about a storage job. A job is named after the
// workspace and OpID, so that a new leader recognises the one it finds.
type Job struct {
	Kind  JobKind
	OpID  string
	State JobState
	// Reason and Message explain a failed job; they come from its exit code and
	// its last line of output.
	Reason  ErrorReason
	Message string
	// Size is the archive's size in bytes as a succeeded job reported it.
	Size int64
}

// Presence is an answer that may be missing: nobody asked, or nobody answered.
type Presence int

// The answers. Unknown never changes a condition.
const (
	Unknown Presence = iota
	Absent
	Present
)

// Observation is everything the sensors said about one workspace at one time. A
// workspace with a sensor that did not answer is not observed at all: its
// conditions stay as they are (SPEC 2).
type Observation struct {
	// Container is nil when there is none, running or not.
	Container *Container
	// Volume is whether the home volume exists, whatever it holds.
	Volume bool
	// Jobs are the workspace's storage jobs, finished ones included.
	Jobs []Job
	// Archive is whether archive_key and its commit marker both exist.
	Archive Presence
	// Upload is the same for the key that belongs to archive_op_id; UploadSize is
	// the size of that archive in bytes.
	Upload     Presence
	UploadSize int64
}
