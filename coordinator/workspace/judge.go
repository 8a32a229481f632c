package workspace

import "time"

// With these reasons of ContainerReady, a container that was ready before is still alive. People may be working in it,
// and it may recover by itself.
const (
	ContainerNotReady  = "ContainerNotReady"
	ContainerUnhealthy = "ContainerUnhealthy"
	ContainerPaused    = "ContainerPaused"
)

// ContainerDozing is the reason of ContainerReady while the container is frozen because the workspace is idle. Its
// connections wait until it resumes.
const ContainerDozing = "ContainerDozing"

// Judge computes the phase from the conditions and the previous phase. The order of the rules is their priority
// (SPEC 2). Only a container that has ended leaves RUNNING.
func Judge(c Conditions, deletedAt time.Time, archiveKey string, was Phase) Phase {
	container, volume, archive := present(c, archiveKey, was)
	switch {
	case !deletedAt.IsZero() && (container || volume || archive):
		return PhaseDeleting
	case !deletedAt.IsZero():
		return PhaseDeleted
	case !c.True(PolicyHealthy):
		return PhaseError
	}
	return ordered(container, volume, archive)
}

// present returns whether container, volume and archive count as present, according to the conditions.
func present(c Conditions, archiveKey string, was Phase) (container, volume, archive bool) {
	container = c.True(ContainerReady)
	switch c[ContainerReady].Reason {
	case ContainerNotReady, ContainerUnhealthy, ContainerPaused:
		container = container || was == PhaseRunning
	}
	return container, c.True(VolumeReady), archiveKey != "" && c.True(ArchiveReady)
}

// OrderedPhase returns the phase, in the order of SPEC 1, contract 5, that follows from the observed resources,
// regardless of deletion and errors.
func OrderedPhase(c Conditions, archiveKey string, was Phase) Phase {
	return ordered(present(c, archiveKey, was))
}

func ordered(container, volume, archive bool) Phase {
	switch {
	case container && volume:
		return PhaseRunning
	case volume:
		return PhaseStandby
	case archive:
		return PhaseArchived
	}
	return PhasePending
}
