package workspace

import "time"

// Judge computes the phase from the conditions. The order of the rules is their
// priority (SPEC 2).
func Judge(c Conditions, deletedAt time.Time, archiveKey string) Phase {
	container, volume := c.True(ContainerReady), c.True(VolumeReady)
	archive := archiveKey != "" && c.True(ArchiveReady)
	switch {
	case !deletedAt.IsZero() && (container || volume || archive):
		return PhaseDeleting
	case !deletedAt.IsZero():
		return PhaseDeleted
	case !c.True(PolicyHealthy):
		return PhaseError
	}
	return orderedPhase(container, volume, archive)
}

// orderedPhase is the phase of the order of SPEC 1, contract 5, that the observed
// resources amount to, without regard to deletion and errors.
func orderedPhase(container, volume, archive bool) Phase {
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
