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
	// BasePath is the path prefix under which the application serves, as determined at its start.
	BasePath string
	// ExitCode is meaningful when the container is not Running.
	ExitCode int
	// Cause is why a container has ended, if its exit code does not tell: it ran out of memory, or its node evicted it.
	// It is empty otherwise.
	Cause string
	// Disrupted reports that the container was ended from outside, such as by the drain of its node, an eviction or a
	// forced deletion. Its end says nothing about the program in it (SPEC 3).
	Disrupted bool
	// StartedAt and FinishedAt are the backend's own times; zero when unknown.
	StartedAt, FinishedAt time.Time
	// Volume is false when the container does not mount the workspace's own volume.
	Volume bool
	// Health is why a running container is not Ready; empty when it is.
	Health Health
	// Pending is the backend's explanation of why the container makes no progress: it was started and does not run yet,
	// its node is lost, or it does not end. It is nil when the backend reports no such obstacle. A container that was
	// started and does not run yet counts as Running.
	Pending *Pending
	// StartAgain reports that the backend must check this running container before its first use, and perhaps replace
	// it. The backend does so when it is asked to start the container once more (SPEC 7).
	StartAgain bool
	// Unknown says why this container could not be inspected. The other fields then mean nothing, and the workspace
	// keeps its conditions (SPEC 2).
	Unknown string
}

// Pending is why the backend has not done yet what it was asked to do.
type Pending struct {
	// Reason is a CamelCase word, as in [Waiting]; Message says what the backend waits for and what to do.
	Reason, Message string
	// Failure is set when the obstacle does not pass by itself, such as an image that does not exist. The operation
	// then fails with it.
	Failure ErrorReason
	// Cause is that of [Waiting].
	Cause string
	// Outdated reports that the container has not begun to run and was made from settings that have changed since. The
	// present settings may end its wait, so it must be started again.
	Outdated bool
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
	// OpID is the operation that made the volume, according to its label; empty for a volume that was made before
	// volumes had that label.
	OpID string
	// CreatedAt is the backend's own time; zero when unknown.
	CreatedAt time.Time
	// Unknown says why it is not known whether the volume will stay, such as during its deletion. The other fields
	// then mean nothing, and the workspace keeps its conditions (SPEC 2).
	Unknown string
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
	// Changed is the file of the home that changed while an archive job read it, which made the job fail.
	Changed string
	// Disrupted is as in [Container], for a failed job.
	Disrupted bool
	// ResultLost reports that a failed job has ended and that its result cannot be known any more. Its output cannot be
	// read, or does not hold one. Its work may be done.
	ResultLost bool
	// Locked reports that the archive is encrypted and that the job had no key that opens it.
	Locked bool
	// Unfit reports that the job has failed and is not of this release, so that its output may mean something else.
	Unfit bool
	// Size is the size of the archive in bytes, as a succeeded job reported it.
	Size int64
	// Content is the total size of the home's regular files in bytes, and Files is the number of its entries. SHA256 is
	// the archive's checksum. A job that succeeded reports all three. Content and Files are 0 if an earlier run had
	// done the work.
	Content, Files int64
	SHA256         string
	// Unchanged reports that an archive job has found the home as it was when Fingerprint was taken. It has made no
	// archive, because the current one holds the same content.
	Unchanged bool
	// Verified reports that a succeeded archive job has read back the archive that it has made.
	Verified bool
	// Fingerprint identifies the state of the home after a succeeded job; empty when unknown.
	Fingerprint string
	// Course records when an ended job took each of its steps; nil when unknown.
	Course *JobCourse
	// Progress is the newest line of a running job's progress; "" when it is unknown. It
	// changes as long as the job makes progress.
	Progress string
	// Pending is as in [Container], for a running job.
	Pending *Pending
	// Unknown says why this job could not be inspected. Its State then means nothing.
	Unknown string
}

// JobCourse is how a storage job went.
type JobCourse struct {
	// Began is when the job started, by the clock of its machine, and Took is how long it ran. Stages are its steps in
	// their order.
	Began  time.Time
	Took   time.Duration
	Stages []JobStage
}

// JobStage is a step of a storage job, and how long after the job's start it began.
type JobStage struct {
	Step string
	At   time.Duration
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

// Sensors is a set of the backend's sensors.
type Sensors uint8

// The sensors.
const (
	SensorContainers Sensors = 1 << iota
	SensorVolumes
	SensorJobs
	AllSensors = SensorContainers | SensorVolumes | SensorJobs
)

// StoreState is whether the object store can be used now.
type StoreState int

// The states of the object store.
const (
	// StoreUnasked: no decision has needed the store so far.
	StoreUnasked StoreState = iota
	// StoreAnswers: the store answers, and it is the recorded one (SPEC 2).
	StoreAnswers
	// StoreAway: there is no connection or no answer in time, or the store reports that it is unavailable at the
	// moment.
	StoreAway
	// StoreRefuses: the store answers, but it denies access, or its answer cannot be understood.
	StoreRefuses
	// StoreMismatch: the bucket is not the recorded one.
	StoreMismatch
)

// StoreAnswer is how the object store answered, with a message for people unless it
// answered as it should.
type StoreAnswer struct {
	State   StoreState
	Message string
}

// Pull is the state of fetching the workspace's image.
type Pull struct {
	// Image is the image's reference. Queued reports that other images are pulled first.
	Image  string
	Queued bool
	// Done of Total bytes have been pulled. Done is 0 until anything is known. Total is 0 while the total is unknown.
	Done, Total int64
	// Failure says why the image could not be pulled; empty while the image may still arrive. Cause, as in [Waiting],
	// is set if the next attempt may succeed.
	Failure string
	Cause   string
	// Jobs reports that this is the image of storage jobs, and not the workspace's own.
	Jobs bool
}

// Observation is what the backend and the object store report about one workspace at one time. An unknown part leaves
// its conditions unchanged, and no action depends on it (SPEC 2).
type Observation struct {
	// Container is nil when there is no container, neither running nor exited.
	Container *Container
	// Volume is nil when there is no home volume, regardless of its content.
	Volume *Volume
	// Jobs are the workspace's storage jobs, finished ones included.
	Jobs []Job
	// Unseen are the sensors that reported nothing about this workspace; UnseenReason and UnseenMessage describe what
	// the workspace then waits for.
	Unseen                      Sensors
	UnseenReason, UnseenMessage string
	// Archive is whether the object at archive_key and its commit marker both exist.
	Archive Presence
	// Upload is the same for the key that belongs to archive_op_id; UploadSize is
	// the size of that archive in bytes.
	Upload     Presence
	UploadSize int64
	// UploadSHA256 is the checksum in its commit marker; empty when the marker is malformed. If the store was asked
	// only about the archive at archive_key, size and checksum are those of that archive.
	UploadSHA256 string
	// Chosen is whether the archive of an open [Revert] and its commit marker exist.
	Chosen Presence
	// Younger is the newest complete archive of the workspace, if two conditions hold: it is younger than the archive
	// at archive_key and than the newest archive that a recovery has seen, and it was not made by the operation
	// archive_op_id. The controller looks for it whenever it asks about Store, unless the volume is ready.
	Younger string
	// Witnessed reports that this leader has begun the operation in progress, so that the row cannot be older than the
	// operation. Otherwise the database may be older than reality.
	Witnessed bool
	// Store is whether the object store can be used.
	Store StoreAnswer
	// Pull is the state of fetching the image; nil when nothing is fetched.
	Pull *Pull
	// Readiness is what the controller's own probe has found out about the container; nil while no container is probed.
	Readiness *Readiness
	// Image and Port are those with which the workspace's container would be started under the current settings. They
	// are known while the container is probed, for [FoundPort]; Image is also known while an image is pulled.
	Image string
	Port  int
	// ProgressAt is when the operation was last seen to make progress; zero when unknown.
	ProgressAt time.Time
	// Progress is how far the job of the operation is; nil when that is not known.
	Progress *JobProgress
	// Queued reports that no further storage job may begin now (SPEC 7). It is nil while one may begin, or if no
	// decision has asked for it.
	Queued *Queued
	// ActionError is the error of the last call of an actuator for the operation in progress, until it is counted; see
	// [Failure], [PendingError] and [StoreError].
	ActionError error
}

// Queued is the place of a workspace in the queue of storage jobs: how many other jobs begin before its own.
type Queued struct{ Before int }

// Knows reports whether all of these sensors have answered.
func (o Observation) Knows(s Sensors) bool { return o.Unseen&s == 0 }

// VolumeDoubtful reports whether there is a volume that may be about to disappear.
func (o Observation) VolumeDoubtful() bool { return o.Volume != nil && o.Volume.Unknown != "" }

// Sanitized treats objects that could not be inspected as unseen.
func (o Observation) Sanitized() Observation {
	unseen := func(s Sensors, reason, why string) {
		o.Unseen |= s
		if o.UnseenReason == "" {
			o.UnseenReason, o.UnseenMessage = reason, why
		}
	}
	if o.VolumeDoubtful() {
		unseen(SensorVolumes, WaitVolume, "the home volume cannot be used: "+o.Volume.Unknown)
	}
	if o.Container != nil && o.Container.Unknown != "" {
		unseen(SensorContainers, WaitBackendAway, "the container cannot be inspected: "+o.Container.Unknown)
	}
	for _, j := range o.Jobs {
		if j.Unknown != "" {
			unseen(SensorJobs, WaitBackendAway, "a storage job cannot be inspected: "+j.Unknown)
		}
	}
	if !o.Knows(SensorContainers) {
		o.Container = nil
	}
	if !o.Knows(SensorVolumes) {
		o.Volume = nil
	}
	if !o.Knows(SensorJobs) {
		o.Jobs = nil
	}
	return o
}
