// Package backend says what the coordinator asks of a container runtime. Docker
// and Kubernetes implement it; package backendtest holds the suite that each
// implementation passes.
package backend

import (
	"context"
	"errors"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Backend lists and changes the containers, volumes and storage jobs of one
// installation.
//
// Implementations MUST label everything they make with the installation's id and
// the workspace's id, and MUST neither list nor touch what carries another
// installation's label or none (SPEC 12.8). A name that is taken by somebody
// else's object is an error that names it, never a reason to delete it.
//
// Every method MUST be safe for concurrent use and MUST honour its context.
// Every actuator MUST be idempotent: called again after a crash at any of its
// steps, it reaches the same end. An error whose cause is known carries a reason
// (see [workspace.Fail]): ImagePullFailed, Unreachable, ContainerWithoutVolume.
type Backend interface {
	// Containers, Volumes and Jobs are the sensors. Without ids they list
	// everything of the installation in one call; with ids, those workspaces only.
	// What does not exist is not in the map. An error means that nothing is known.
	Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error)
	Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]struct{}, error)
	Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error)

	// Start makes the workspace's container run. Running already: nothing. Present
	// but not running: it is removed and made anew. It MUST refuse, with
	// ContainerWithoutVolume, when the volume does not exist, and MUST NOT create
	// the volume. It returns when the container runs; readiness is observed.
	Start(ctx context.Context, spec StartSpec) error
	// Delete kills and removes the container. Absent: nothing. The volume stays.
	Delete(ctx context.Context, id workspace.ID) error
	// Provision creates the home volume, empty. Present: nothing.
	Provision(ctx context.Context, id workspace.ID) error
	// DeleteVolume removes the home volume. Absent: nothing.
	DeleteVolume(ctx context.Context, id workspace.ID) error
	// StartJob starts the storage job named after (workspace, kind, op id) and
	// returns without waiting for its end. A job of that name, in any state:
	// nothing. It MUST refuse when the volume does not exist or while the
	// workspace's container exists (SPEC 12.4).
	StartJob(ctx context.Context, spec JobSpec) error
	// DeleteJobs kills and removes all storage jobs of the workspace. None: nothing.
	DeleteJobs(ctx context.Context, id workspace.ID) error

	// Logs returns at most the last lines lines that the container printed. No
	// container is [ErrNotFound].
	Logs(ctx context.Context, id workspace.ID, lines int) (string, error)
	// Events sends the id of a workspace whenever something of it changed. It is a
	// hint: events may be lost or doubled. The channel is closed when ctx ends or
	// the source breaks off; the caller subscribes again.
	Events(ctx context.Context) (<-chan workspace.ID, error)
	// Close releases connections. It changes nothing in the runtime.
	Close() error
}

// StartSpec is what a workspace's container is made from.
type StartSpec struct {
	ID workspace.ID
	// Image is the reference to run; empty means the runtime's default image.
	Image string
}

// JobSpec is what a storage job is made from.
type JobSpec struct {
	ID   workspace.ID
	Kind workspace.JobKind
	OpID string
	// Env is the job's environment: ARCHIVE_URL and the credentials of the object
	// store. It MUST NOT be logged.
	Env []string
}

var (
	// ErrNotFound says that there is no such container.
	ErrNotFound = errors.New("not found")
	// ErrVolumeInUse says that a container still holds the volume.
	ErrVolumeInUse = errors.New("the volume is in use")
)
