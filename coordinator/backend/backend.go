// Package backend defines what the coordinator needs of a container backend: of
// Docker or Kubernetes. Package backendtest is the conformance suite that every
// implementation passes.
//
// It owns the contract of a backend, and what all implementations share. That is the form of a
// storage job's name and environment, what its end means, and that nothing is changed after the
// leader's lease. It must not import an implementation, nor decide what should run.
package backend

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Backend is one installation on a container engine or cluster: what every backend does, and
// the parts that only some have. It is the one place that says what a backend can do. New of each
// implementation fills it, and consumers and the conformance suite read it.
type Backend struct {
	Core

	// Addresses returns the addresses that Start gives to containers by number
	// ([StartSpec.Slot]). Nil, or a pool of size 0: the engine chooses them, and may give one to
	// another container at once.
	Addresses func(ctx context.Context) (Pool, error)

	// Images are the images that the engine has. Nil: the nodes pull them when something
	// starts, Containers and Jobs report how that goes, and Start and StartJob never return a
	// [MissingImageError].
	Images Images

	// KeepIsolated makes the rules about what workspaces reach, and reports whether they stood
	// before. An egress.UnableError says that workspaces run without. After any other error
	// none starts before the rules stand, as far as the backend can prevent it. Nil: there are
	// no such rules.
	KeepIsolated func(ctx context.Context) (stood bool, err error)

	// Outdated reports whether the workspace's container was started and has never begun to run, and
	// was made from another spec than this one. Start replaces such a container, so a corrected image
	// reaches it. It costs no request. Nil: what was started runs, or the start has failed.
	Outdated func(ctx context.Context, s StartSpec) bool

	// Release removes what keeps containers that have ended in the listings after their
	// deletion, of these workspaces or of all without ids. It changes nothing before may has
	// returned nil. Nil: nothing keeps them there.
	Release func(ctx context.Context, may func(context.Context) error, ids ...workspace.ID) error

	// Freezer freezes idle containers instead of ending them. Nil: nothing here can, and workspaces
	// go to sleep without dozing before (SPEC 6).
	Freezer Freezer

	// Memory tells how much of the memory of the engine's host is left. It may be called every few
	// seconds, by one process. Nil: that is not known.
	Memory func(ctx context.Context) (Memory, error)

	// OnePort says that the gateway reaches the application's port of a container, and no other one.
	OnePort bool

	// LocalHomes says that the homes are folders of one host. Usage then also counts the homes
	// of workspaces that do not run, and Disk never returns [ErrUnknownDisk].
	LocalHomes bool
}

// Core is what every backend does.
//
// Implementations MUST label everything they make with the installation's id and the workspace's
// id. They MUST neither list nor touch what carries another installation's label or none (SPEC
// 12.8). If such an object has the name that is needed, the error MUST name it; it is never a
// reason to delete the object.
//
// Every method MUST be safe for concurrent use and MUST honour its context.
// Every actuator MUST be idempotent: called again after a crash at any of its
// steps, it reaches the same result. An error whose cause is known carries a
// reason (see [workspace.Fail]): ImagePullFailed, Unreachable,
// ContainerWithoutVolume. The same holds for the optional parts of [Backend].
type Core interface {
	Sensors
	Actuators
	Inspector
	Objects
	Executor

	// Events sends the id of a workspace when its container or a job of it changed. It
	// is a hint: events may be lost or repeated. Listings made after an event MUST show its change,
	// because no other event may follow. The channel is closed when ctx ends or
	// the source fails or hangs; the caller then subscribes again.
	Events(ctx context.Context) (<-chan workspace.ID, error)

	// Identity returns the identity of the engine or cluster that answers now. It stays the same
	// over restarts, and differs between any two of them (SPEC 2). It is cheap enough to be called
	// after every listing, and MUST be that of whatever answers the calls made before it. When
	// another one has taken the former one's place it MAY fail, with Unreachable, for as long as it
	// takes to be sure of that.
	Identity(ctx context.Context) (string, error)

	// Close releases connections. It changes no container, volume or job.
	Close() error
}

// Sensors list what exists. Without ids they list everything of the installation in one
// call; with ids, those workspaces only. What does not exist is not in the map. After an
// error nothing is known, and the map must not be used. They MUST fail only when the backend
// does not answer: what concerns one object goes into its Unknown.
type Sensors interface {
	Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error)
	Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error)
	Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error)
}

// Actuators change what exists.
type Actuators interface {
	// Start runs the workspace's container. If it runs already, Start does nothing, except that it
	// thaws a frozen one, and looks into one whose StartAgain is set, which it may replace; if it exists and does not run, Start replaces it. It MUST refuse, with
	// ContainerWithoutVolume, if the volume does not exist, and MUST NOT create the
	// volume. It MUST refuse while a storage job runs; one that has ended does not hinder it
	// (SPEC 12.4). It does not pull images: the error is a [MissingImageError] then. It
	// returns when the container runs; readiness is observed.
	Start(ctx context.Context, spec StartSpec) error
	// Delete removes the container, if there is one, and keeps the volume. Before that it asks the container's programs to end,
	// and gives them the time that the settings allow (SPEC 7). It thaws a frozen one for that. Where they allow none, it kills a container where it is.
	Delete(ctx context.Context, id workspace.ID) error
	// Provision creates an empty home volume that carries the operation that makes it. If one
	// exists with the same operation it does nothing. If one exists with another, the error carries
	// ReasonConflict and the volume MUST NOT be touched (SPEC 12.9).
	Provision(ctx context.Context, spec VolumeSpec) error
	// DeleteVolume removes the home volume that the operation opID made, if it exists. A volume of
	// another operation MUST stay, also one that takes its place while the request is under way
	// (SPEC 12.11). Then nothing is an error. An empty opID means a volume without such a label.
	// While a container uses it, the error is [ErrVolumeInUse].
	DeleteVolume(ctx context.Context, id workspace.ID, opID string) error
	// StartJob starts the storage job called [JobSpec.Name] and returns without
	// waiting for its end. If a job of that name exists, running or not, it does
	// nothing. It MUST refuse if the volume does not exist, while the workspace's
	// container exists (SPEC 12.4), and while another job runs. Like Start, it does not
	// pull images: without the job's image the error is a [MissingImageError].
	StartJob(ctx context.Context, spec JobSpec) error
	// DeleteJobs kills and removes all storage jobs of the workspace.
	DeleteJobs(ctx context.Context, id workspace.ID) error
}

// Inspector looks into containers and homes, and changes nothing. Except for Look, it works while a
// container is frozen, and no method waits for its thaw.
type Inspector interface {
	// Logs returns the last lines that the container printed, at most so many. If
	// there is no container, the error is [ErrNotFound].
	Logs(ctx context.Context, id workspace.ID, lines int) (string, error)
	// Follow writes the last lines that the container printed, at most so many, and then what it
	// prints as it comes, from one goroutine. It returns nil when the container has ended, and soon when
	// ctx ends. Output that is not taken holds up Follow alone, never the container, and MUST NOT be
	// buffered without a bound. If there is no container, the error is [ErrNotFound].
	Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error
	// Stats returns what the workspace's running container uses. It MUST NOT count as use, as a Look
	// does not. If no container runs, the error is [ErrNotFound]. Of a frozen one, what only the
	// workspace itself can say is not known.
	Stats(ctx context.Context, id workspace.ID) (Stats, error)
	// Look looks at what goes on in the workspace's running container, for [work.Settings]
	// to judge. It MUST NOT count as use or change anything in the container. Only the command of
	// [work.BusyLabel] runs there, as the container's user and for a bounded time. It leaves out
	// what [work.Sample] says of kernels. If no container runs, the error is [ErrNotFound], and if it
	// is frozen, [ErrFrozen]: nothing goes on in it. Any other error says that nothing is known.
	Look(ctx context.Context, id workspace.ID) (work.Sample, error)
	// Usage counts for at most about so long what those homes hold. One that does not exist,
	// or cannot be counted, is not in the map. It MUST NOT hold up a container or a job that starts
	// on a home meanwhile, nor the removal of the home. It MUST NOT change anything in it, nor
	// count as use.
	Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (map[workspace.ID]Usage, error)
	// Disk asks how full the disk of the home volumes is. It may be called every half
	// minute; what it returns may be that old. If there is no such disk, the error is
	// [ErrUnknownDisk].
	Disk(ctx context.Context) (Disk, error)
}

// Objects are for people's commands: the controller never calls them.
type Objects interface {
	// Objects lists everything that carries this installation's labels, in any state, to find
	// what belongs to no workspace.
	Objects(ctx context.Context) ([]Object, error)

	// Remove removes that one incarnation and nothing that took its place; if it is gone,
	// Remove does nothing. It kills what runs, and refuses with [ErrVolumeInUse] a volume that
	// a container uses.
	Remove(ctx context.Context, o Object) error
}

// Freezer stops the processes of a container where they are, and lets them go on. A frozen one takes
// no processor time and keeps its memory, its address and its connections: what arrives there waits
// in the kernel. Containers reports it as Running with [workspace.HealthPaused], with its endpoint,
// and as before when it was thawed: that it was frozen does not make it unhealthy or starting. An
// engine may take a moment to show a change that follows another one at once, and sends an event when
// it does. Whoever needs a container thawed therefore asks for it until Containers shows it.
//
// Nobody but an administrator freezes a container in another way, and Thaw ends that as well. When
// the engine itself restarts, a frozen container stays frozen or ends; either is observed.
type Freezer interface {
	// Freeze freezes the workspace's container that was started at that time, as Containers reports
	// it; see [SameStart]. If that one is frozen already, has ended or was replaced, Freeze does
	// nothing. When it returns, none of its processes runs.
	Freeze(ctx context.Context, id workspace.ID, started time.Time) error
	// Thaw lets the workspace's container go on. If there is none, or it is not frozen, Thaw does
	// nothing. Any process may call it, not the leader alone.
	Thaw(ctx context.Context, id workspace.ID) error
}

// SameStart reports whether two times are the same start of a container. The database keeps them to
// the microsecond. A time that is not known is none.
func SameStart(a, b time.Time) bool {
	return !a.IsZero() && !b.IsZero() && a.Sub(b).Abs() <= time.Microsecond
}

// Images are the images that an engine has. An empty image means the backend's default image.
type Images interface {
	// Check returns the [MissingImageError] that Start would, before Start can be called; nil
	// if the image is there.
	Check(ctx context.Context, image string) error

	// Size returns how many bytes the image takes up on the engine, or a [MissingImageError].
	Size(ctx context.Context, image string) (int64, error)

	// Pull pulls an image that Start or StartJob has reported missing, and reports its progress in
	// bytes. The number done never shrinks, and total grows while the size is being found out. A
	// concurrent Pull of the same image MAY share the work. It calls progress from one goroutine at
	// a time. A registry that refuses or does not have the image, and a name that no image can have, is
	// ImagePullFailed. What may pass is a [workspace.PendingError] that waits for WaitPullingImage, with its cause.
	Pull(ctx context.Context, image string, progress func(done, total int64)) error
}

// VolumeSpec describes a home volume to create.
type VolumeSpec struct {
	ID workspace.ID
	// OpID is the operation that makes the volume. Volumes of earlier releases have none.
	OpID string
	// Owner is as in [StartSpec].
	Owner string
}

// Validate refuses what cannot become a name or a label.
func (s VolumeSpec) Validate() error { return errors.Join(CheckID(s.ID), checkOwner(s.Owner)) }

// StartSpec describes a workspace's container to start.
type StartSpec struct {
	ID workspace.ID
	// Owner is the id of the user whose workspace it is; it becomes a label, by which
	// operators see what whom costs. Nothing depends on it: objects of earlier releases do
	// not have it, and a container without it is the same container.
	Owner string
	// Image is the reference to run; empty means the backend's default image.
	Image string
	// Port is the port that the application listens on; 0 means the backend's default.
	Port int
	// Command replaces the image's command; empty keeps it.
	Command []string
	// Env is added to the image's environment, as NAME=value.
	Env []string
	// Hostname is the host name inside, where the backend may add a domain to it; empty means
	// the container's name.
	Hostname string
	// BasePath is the path prefix that the application keeps; Containers reports it back.
	BasePath string
	// Slot is the container's address, a number in the range of Addresses of [Backend]. A
	// container with another one that does not run is replaced. If something else has the
	// address, the error is [ErrAddressInUse]. 0 lets the backend choose.
	Slot int64
	// Term identifies the leader's term that starts the container, such as
	// "coordinator/3:17"; it becomes a label, from which tests prove who acted.
	Term string
}

// Validate refuses what cannot become a name or a label. What else an engine does not take, it
// refuses itself.
func (s StartSpec) Validate() error { return errors.Join(CheckID(s.ID), checkOwner(s.Owner)) }

// Pool is a range of addresses: the Size numbers from First on. Pools of one name that
// overlap share those addresses. A number means the same address for ever.
type Pool struct {
	Name        string
	First, Size int64
}

// MissingImageError says that the backend must pull an image first.
// Image is what [Images.Pull] takes; it is never empty. Jobs says that it is the image of storage jobs:
// that it cannot be pulled is no failure of the workspace that needs it.
type MissingImageError struct {
	Image string
	Jobs  bool
}

// Error implements error.
func (e *MissingImageError) Error() string { return "image " + e.Image + " is not here yet" }

var (
	// ErrNotFound says that the container does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAddressInUse says that something else has the address of [StartSpec.Slot].
	ErrAddressInUse = errors.New("the address is in use")
	// ErrFrozen says that the container must be thawed first.
	ErrFrozen = errors.New("the container is frozen")
	// ErrVolumeInUse says that a container still uses the volume.
	ErrVolumeInUse = errors.New("the volume is in use")
)
