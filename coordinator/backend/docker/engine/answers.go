package engine

import (
	"regexp"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api"
)

// Answer is an error of the engine that only its text distinguishes from others with the same code.
type Answer struct {
	code func(error) bool // nil: the engine uses several
	text *regexp.Regexp
}

// Is reports whether err is this answer.
func (a Answer) Is(err error) bool {
	return err != nil && (a.code == nil || a.code(err)) && a.text.MatchString(err.Error())
}

// The answers of the engine that its codes do not identify. All other errors are recognized by package errdefs.
var (
	diskFull = Answer{nil, regexp.MustCompile(`no space left on device`)}
	// stopping: the engine has closed the database of its volumes, and still answers.
	stopping = Answer{nil, regexp.MustCompile(`: database not open$`)}
	// unversioned: the client uses its own newest version, because the engine did not answer when it was asked for its
	// version.
	unversioned = Answer{errdefs.IsInvalidArgument,
		regexp.MustCompile(`client version ` + regexp.QuoteMeta(api.DefaultVersion) + ` is too new`)}

	// BadReference: no image can have this reference.
	BadReference = Answer{errdefs.IsInvalidArgument, regexp.MustCompile(`reference format`)}
	// NoContainer: the container does not exist. If an error does not name the container, its network or its image may be
	// missing instead.
	NoContainer = Answer{nil, regexp.MustCompile(`No such container`)}
	// ContainerRemoved: another process has removed the container or is removing it.
	ContainerRemoved = Answer{nil, regexp.MustCompile(`marked for removal`)}
	// IsPaused: nothing can start in a paused container.
	IsPaused = Answer{nil, regexp.MustCompile(`is paused`)}
	// AlreadySo: the container is already in the requested state. The first text means that another call was quicker.
	// The others come from the engine's own record of the state, which is updated late: just after a thaw, a running
	// container may still count as paused, and vice versa.
	AlreadySo = Answer{nil, regexp.MustCompile(` is not paused|cannot resume a running process|cannot pause a paused container`)}
	// NoPS: the engine cannot list processes with these arguments of ps.
	NoPS = Answer{nil, regexp.MustCompile(`ps`)}

	// NetworkMissing and NetworkAmbiguous: the network was removed, or two processes have created it.
	NetworkMissing   = Answer{errdefs.IsNotFound, regexp.MustCompile(`network`)}
	NetworkAmbiguous = Answer{nil, regexp.MustCompile(`is ambiguous`)}
	// SubnetTaken: another network uses part of the subnet.
	SubnetTaken = Answer{nil, regexp.MustCompile(`overlaps`)}
	// InterfaceTaken: another network has the interface. That network has the same name and owner. While another process
	// is creating it, the engine may not list it yet.
	InterfaceTaken = Answer{nil, regexp.MustCompile(`same bridge name`)}
	// NetworkFull: a Linux bridge has 1,023 ports.
	NetworkFull = Answer{nil, regexp.MustCompile(`(?i)exchange full`)}
	// AddressTaken: something else uses the address.
	AddressTaken = Answer{nil, regexp.MustCompile(`(?i)address already in use|port is already allocated|failed to bind host port`)}
	// ContainerLost: the engine was killed while it started this container. Its processes still run and answer at the
	// address, but the engine does not know of them. A user would then work in the wrong home.
	ContainerLost = Answer{nil, regexp.MustCompile(`(?is)task .*: already exists|: already exists.*task |: id already in use$`)}

	// NoDiskLimit and NoVolumeLimit: the storage driver cannot limit a container or a volume.
	NoDiskLimit   = Answer{nil, regexp.MustCompile(`storage-opt|quota`)}
	NoVolumeLimit = Answer{nil, regexp.MustCompile(`quota|invalid option`)}
)

// NetworkGone reports whether a container did not start because its network was removed, or because two processes
// have created it. The caller must find the network again.
func NetworkGone(err error) bool { return NetworkMissing.Is(err) || NetworkAmbiguous.Is(err) }

// RemovedMeanwhile reports whether a container did not start because another process has removed it, or is removing
// it.
func RemovedMeanwhile(err error) bool {
	return errdefs.IsNotFound(err) && NoContainer.Is(err) || ContainerRemoved.Is(err)
}
