package workspace

import "time"

// Container is what the container backend reports about a workspace's container.
type Container struct {
	// Running is true while the container's main process runs.
	Running bool
	// Ready is true when the container can take traffic: it is running and, if its
	// image has a health check, neither starting nor unhealthy.
	Ready bool
	// Endpoint is the host:port at which the gateway reaches the container; set when Ready.
	Endpoint string
	// ExitCode is meaningful when the container is not Running.
	ExitCode int
	// StartedAt and FinishedAt are the backend's own times; zero when unknown.
	StartedAt, FinishedAt time.Time
	// Volume is false when the container does not mount the workspace's own volume.
	Volume bool
	// Health is why a running container is not Ready; empty when it is.
	Health Health
	// Unknown says why this container could not be inspected. The other fields then
	// say nothing, and the workspace keeps what it knows (SPEC 2).
	Unknown string
}

// Health is why a running container is not ready for traffic.
type Health string

// The reasons for which a running container is not ready.
const (
	HealthStarting  Health = "starting"
	HealthUnhealthy Health = "unhealthy"
	HealthPaused    Health = "paused"
)

// Volume is what the container backend reports about a workspace's home volume.
type Volume struct {
	// OpID is the operation that made the volume, which its label says; empty for a
	// volume that was made before volumes had that label.
	OpID string
	// CreatedAt is the backend's own time; zero when unknown.
	CreatedAt time.Time
}

// JobKind is the direction in which a storage job moves data.
type JobKind string

// The kinds of storage job.
const (
	JobArchive JobKind = "archive"
	JobRestore JobKind = "restore"
)

// JobState is the progress of a storage job.
type JobState string

// The states of a storage job.
const (
	JobRunning   JobState = "running"
	JobSucceeded JobState = "succeeded"
	JobFailed    JobState = "failed"
)

// Job is what the container backend reports about a storage job. A job is named
// after the workspace and OpID, so that a new leader recognises a job that a former
// one started.
type Job struct {
	Kind JobKind
	// OpID is the id of the operation that started the job.
	OpID  string
	State JobState
	// Reason and Message explain a failed job. They come from its exit code and its
	// last line of output.
	Reason  ErrorReason
	Message string
	// Size is the size of the archive in bytes, as a succeeded job reported it.
	Size int64
	// Progress is the newest line of a running job's progress; "" when it is unknown. It
	// changes as long as the job gets on.
	Progress string
	// Unknown says why this job could not be inspected. Its State then says nothing.
	Unknown string
}

// Presence is whether an archive exists, or Unknown if the object store was not
// asked or did not answer.
type Presence int

// The values of Presence. Unknown never changes a condition.
const (
	Unknown Presence = iota
	Absent
	Present
)

// Observation is what the backend and the object store report about one workspace
// at one time. While the backend does not answer there is no observation, and all
// conditions keep their values (SPEC 2).
type Observation struct {
	// Container is nil when there is none, neither running nor exited.
	Container *Container
	// Volume is whether the home volume exists, regardless of its content.
	Volume bool
	// Jobs are the workspace's storage jobs, finished ones included.
	Jobs []Job
	// Archive is whether the object at archive_key and its commit marker both exist.
	Archive Presence
	// Upload is the same for the key that belongs to archive_op_id; UploadSize is
	// the size of that archive in bytes.
	Upload     Presence
	UploadSize int64
}
