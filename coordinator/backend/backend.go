// Package backend defines the contract of a container backend: Docker or Kubernetes. Package backendtest is the
// conformance suite that every implementation passes.
//
// It owns the contract and the common parts of the implementations: the form of a storage job's name and environment,
// the meaning of its end, and the rule that nothing changes after the leader's lease. It must not import an
// implementation, nor decide what should run.
package backend

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Backend is one installation on a container engine or cluster: the methods of every backend, and the optional parts.
// It alone lists what a backend can do: each implementation's New fills it in, and consumers and the conformance suite
// read it.
type Backend struct {
	Core

	// Addresses returns the addresses that Start gives to containers by number ([StartSpec.Slot]). If it is nil, or the
	// pool's size is 0, the engine chooses addresses, and may reuse one immediately.
	Addresses func(ctx context.Context) (Pool, error)

	// Images are the engine's images. Nil means that the nodes pull images at a start, that Containers and Jobs report
	// the progress, and that Start and StartJob never return a [MissingImageError].
	Images Images

	// KeepIsolated applies the rules about what workspaces can reach, and reports whether they were in force before. An
	// egress.UnableError means that workspaces run without rules. After any other error no workspace starts before the
	// rules are in force, as far as the backend can prevent it. Nil means that there are no such rules.
	KeepIsolated func(ctx context.Context) (stood bool, err error)

	// Outdated reports whether the workspace's container was started from another spec than this one and has never
	// begun to run. Start replaces such a container, so that a corrected image takes effect. It costs no request. Nil
	// means that there are no such containers: if a container does not begin to run, its start has failed.
	Outdated func(ctx context.Context, s StartSpec) bool

	// RemoveFinalizers removes what keeps the ended containers of these workspaces, or of all workspaces if ids is empty,
	// in the listings after their deletion. It changes nothing until may has returned nil. Nil means that nothing keeps
	// them.
	RemoveFinalizers func(ctx context.Context, may func(context.Context) error, ids ...workspace.ID) error

	// Freezer freezes idle containers instead of ending them. Nil means that this backend cannot freeze containers.
	// Workspaces then go to sleep without dozing first (SPEC 6).
	Freezer Freezer

	// Memory returns how much memory is left on the engine's host. One process may call it every few seconds. Nil means
	// unknown.
	Memory func(ctx context.Context) (Memory, error)

	// OnePort means that the gateway reaches the application's port of a container, and no other port.
	OnePort bool

	// LocalHomes means that the homes are folders of one host. Usage then also counts the homes of workspaces that do
	// not run, and Disk never returns [ErrUnknownDisk].
	LocalHomes bool
}

// Core is what every backend implements.
//
// Implementations MUST label every object that they create with the installation's id and the workspace's id. They MUST
// neither list nor touch objects with another installation's label or without one (SPEC 12.8). If such an object has a
// name that they need, the error MUST name the object, and the object MUST stay.
//
// Every method MUST be safe for concurrent use and MUST honour its context. Every actuator MUST be idempotent: called
// again after a crash at any of its steps, it reaches the same result. An error whose cause is known carries a reason
// (see [workspace.Fail]): ImagePullFailed, Unreachable, ContainerWithoutVolume. The same holds for the optional parts
// of [Backend].
type Core interface {
	Sensors
	Actuators
	Inspector
	Objects
	Executor

	// Events sends the id of a workspace when its container or one of its jobs has changed. Each event is a hint:
	// events may be lost or repeated. Listings after an event MUST show its change, because no other event may follow.
	// The channel is closed when ctx ends or the source fails or hangs; the caller then subscribes again.
	Events(ctx context.Context) (<-chan workspace.ID, error)

	// Identity returns the identity of the engine or cluster that answers now. The identity survives restarts, and no two
	// engines have the same one (SPEC 2). Identity is cheap enough to call after every listing. It MUST return the
	// identity of the engine that answered the calls before it. When another engine begins to answer at the address,
	// Identity MAY fail with Unreachable until it is sure of that.
	Identity(ctx context.Context) (string, error)

	// Close releases connections. It changes no container, volume or job.
	Close() error
}

// Sensors list what exists. Without ids they list everything of the installation in one call; with ids, only what
// belongs to those workspaces. Objects that do not exist are not in the map. After an error nothing is known, and the
// map must not be used. Sensors MUST fail only when the backend does not answer: an error about one object goes into
// its Unknown.
type Sensors interface {
	Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error)
	Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error)
	Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error)
}

// Actuators change what exists.
type Actuators interface {
	// Start runs the workspace's container. If the container runs already, Start does only two things: it thaws a frozen
	// container, and it examines one that has StartAgain, and may replace it. If the container exists and does not run,
	// Start replaces it. It MUST refuse, with ContainerWithoutVolume, if the volume does not exist, and MUST NOT create
	// the volume. It MUST refuse while a storage job runs; an ended job does not prevent it (SPEC 12.4). It does not pull
	// images but returns a [MissingImageError]. It returns when the container runs; readiness is observed.
	Start(ctx context.Context, spec StartSpec) error
	// Delete removes the container, if there is one, and keeps the volume. First it asks the container's programs to
	// end, and gives them the time that the settings allow (SPEC 7). It thaws a frozen container for this. If the
	// settings allow no time, it kills the container immediately.
	Delete(ctx context.Context, id workspace.ID) error
	// Provision creates an empty home volume labelled with its operation. If one exists with the same operation,
	// Provision does nothing. If one exists with another operation, the error carries ReasonConflict and the volume MUST
	// NOT be touched (SPEC 12.9).
	Provision(ctx context.Context, spec VolumeSpec) error
	// DeleteVolume removes the home volume of the operation opID, if it exists. A volume of another operation MUST
	// stay, even one that replaces it during the request (SPEC 12.11); that is not an error. An empty opID means a
	// volume without such a label. While a container uses the volume, the error is [ErrVolumeInUse].
	DeleteVolume(ctx context.Context, id workspace.ID, opID string) error
	// StartJob starts the storage job called [JobSpec.Name] and returns without waiting for its end. If a job of that
	// name exists, running or not, it does nothing. It MUST refuse in three cases: the volume does not exist, the
	// workspace's container exists (SPEC 12.4), or another job runs. Like Start, it does not pull images: without the
	// job's image the error is a [MissingImageError].
	StartJob(ctx context.Context, spec JobSpec) error
	// DeleteJobs kills and removes all storage jobs of the workspace.
	DeleteJobs(ctx context.Context, id workspace.ID) error
}

// Inspector examines containers and homes, and changes nothing. Except for Look, it works while a container is frozen,
// and no method waits for a thaw.
type Inspector interface {
	// Logs returns at most that many of the last lines that the container printed. If there is no container, the error
	// is [ErrNotFound].
	Logs(ctx context.Context, id workspace.ID, lines int) (string, error)
	// Follow writes at most that many of the last lines that the container printed, and then its further output, from
	// one goroutine. It returns nil when the container has ended, and soon after ctx ends. A slow writer delays only
	// Follow, never the container, and output MUST NOT be buffered without a bound. If there is no container, the error
	// is [ErrNotFound].
	Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error
	// Stats returns the resource usage of the workspace's running container. Like Look, it MUST NOT count as use. If no
	// container runs, the error is [ErrNotFound]. For a frozen container, the values that only a program inside knows
	// are unknown.
	Stats(ctx context.Context, id workspace.ID) (Stats, error)
	// Look samples the activity in the workspace's running container, for [work.Settings] to judge. It MUST NOT count
	// as use or change anything in the container. Only the command of [work.BusyLabel] runs there, as the container's
	// user and for a bounded time. The sample has nothing about kernels. If no container runs, the error is
	// [ErrNotFound], and if it is frozen, [ErrFrozen], because no program works in it. Any other error means that nothing
	// is known.
	Look(ctx context.Context, id workspace.ID) (work.Sample, error)
	// Usage counts the content of those homes. It takes about limit at most. Homes that do not exist or cannot be counted
	// are not in the map. It MUST NOT delay a container or a job that starts on a home, nor the removal of the home. It
	// MUST NOT change anything in the home, nor count as use.
	Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (map[workspace.ID]Usage, error)
	// Disk returns how full the disk of the home volumes is. It may be called every half minute, and the answer may be
	// half a minute old. If there is no such disk, the error is [ErrUnknownDisk].
	Disk(ctx context.Context) (Disk, error)
}

// Objects are for administrative commands: the controller never calls them.
type Objects interface {
	// Objects lists everything with this installation's labels, in any state, to find objects that belong to no
	// workspace.
	Objects(ctx context.Context) ([]Object, error)

	// Remove removes that one incarnation and never its replacement; if it is gone, Remove does nothing. It kills
	// running containers, and refuses with [ErrVolumeInUse] to remove a volume that a container uses.
	Remove(ctx context.Context, o Object) error
}

// Freezer suspends the processes of a container where they are, and resumes them. A frozen container takes no processor
// time and keeps its memory, its address and its connections: data that arrives waits in the kernel. Containers reports
// it as Running with [workspace.HealthPaused] and its endpoint, and after a thaw reports the state from before:
// freezing makes a container neither unhealthy nor starting. If a freeze and a thaw follow each other immediately, an
// engine may show the second one late. It sends an event when it does. A caller that needs a container thawed therefore
// repeats Thaw until Containers shows it.
//
// Apart from this interface, only an administrator freezes a container, and Thaw ends that as well. When the engine
// itself restarts, a frozen container stays frozen or ends; observations show which.
type Freezer interface {
	// Freeze freezes the workspace's container that started at that time, as Containers reports it; see [SameStart]. If
	// that container is frozen already, has ended or was replaced, Freeze does nothing. When it returns, none of the
	// container's processes runs.
	Freeze(ctx context.Context, id workspace.ID, started time.Time) error
	// Thaw resumes the workspace's container. If there is none, or it is not frozen, Thaw does nothing. Any process may
	// call it, not only the leader.
	Thaw(ctx context.Context, id workspace.ID) error
}

// SameStart reports whether two times are the same start of a container. The database keeps microseconds. An unknown
// time equals no other.
func SameStart(a, b time.Time) bool {
	return !a.IsZero() && !b.IsZero() && a.Sub(b).Abs() <= time.Microsecond
}

// Images are the engine's images. An empty image means the backend's default image.
type Images interface {
	// Check returns the [MissingImageError] that Start would return, before Start can be called; nil if the engine has
	// the image.
	Check(ctx context.Context, image string) error

	// Size returns the image's size on the engine in bytes, or a [MissingImageError].
	Size(ctx context.Context, image string) (int64, error)

	// Pull pulls an image that Start or StartJob has reported missing, and reports its progress in bytes. done never
	// shrinks, and total grows while the size becomes known. A concurrent Pull of the same image MAY share the work.
	// Pull calls progress from one goroutine at a time. If the registry refuses or lacks the image, or the reference is
	// invalid, the error is ImagePullFailed. A transient error is a [workspace.PendingError] that waits for
	// WaitPullingImage, with its cause.
	Pull(ctx context.Context, image string, progress func(done, total int64)) error
}

// VolumeSpec describes a home volume to create.
type VolumeSpec struct {
	ID workspace.ID
	// OpID is the operation that creates the volume. Volumes of earlier releases have no such label.
	OpID string
	// Owner is as in [StartSpec].
	Owner string
}

// Validate refuses values that cannot become a name or a label.
func (s VolumeSpec) Validate() error { return errors.Join(CheckID(s.ID), checkOwner(s.Owner)) }

// StartSpec describes a workspace's container to start.
type StartSpec struct {
	ID workspace.ID
	// Owner is the id of the workspace's user. It becomes a label, which operators use to account for costs. Nothing
	// depends on the label: objects of earlier releases lack it, and a container without it counts as up to date.
	Owner string
	// Image is the reference to run; empty means the backend's default image.
	Image string
	// Port is the port that the application listens on; 0 means the backend's default.
	Port int
	// Command replaces the image's command; empty keeps it.
	Command []string
	// Env is added to the image's environment, as NAME=value.
	Env []string
	// Hostname is the host name inside the container, to which the backend may add a domain; empty means the
	// container's name.
	Hostname string
	// BasePath is the path prefix that the application serves; Containers reports it back.
	BasePath string
	// Slot is the container's address, a number from Addresses of [Backend]. Start replaces a container with another
	// slot that does not run. If something else has the address, the error is [ErrAddressInUse]. 0 lets the backend
	// choose.
	Slot int64
	// Term identifies the leader's term that starts the container, such as "coordinator/3:17". It becomes a label, with
	// which tests prove which leader acted.
	Term string
}

// Validate refuses values that cannot become a name or a label. The engine itself refuses other invalid values.
func (s StartSpec) Validate() error { return errors.Join(CheckID(s.ID), checkOwner(s.Owner)) }

// Pool is a range of addresses: Size numbers, beginning with First. Overlapping pools of one name share addresses. A
// number always means the same address.
type Pool struct {
	Name        string
	First, Size int64
}

// MissingImageError means that the backend must pull an image first. Image is the argument for [Images.Pull]; it is
// never empty. Jobs means that the image is that of storage jobs. If its pull fails, this is not a failure of the
// workspace that needs the job.
type MissingImageError struct {
	Image string
	Jobs  bool
}

// Error implements error.
func (e *MissingImageError) Error() string { return "image " + e.Image + " is not here yet" }

var (
	// ErrNotFound means that the container does not exist.
	ErrNotFound = errors.New("not found")
	// ErrAddressInUse means that something else has the address of [StartSpec.Slot].
	ErrAddressInUse = errors.New("the address is in use")
	// ErrFrozen means that the container must be thawed first.
	ErrFrozen = errors.New("the container is frozen")
	// ErrVolumeInUse means that a container still uses the volume.
	ErrVolumeInUse = errors.New("the volume is in use")
)
