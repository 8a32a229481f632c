package workspace

import "time"

// Judge computes the phase from what was observed. The order of the rules is
// their priority (SPEC 2).
func Judge(c Conditions, deletedAt time.Time, archiveKey string) Phase {
	container, volume := c.True(ContainerReady), c.True(VolumeReady)
	archive := archiveKey != "" && c.True(ArchiveReady)
	if !deletedAt.IsZero() {
		if container || volume || archive {
			return PhaseDeleting
		}
		return PhaseDeleted
	}
	if !c.True(PolicyHealthy) {
		return PhaseError
	}
	return standing(container, volume, archive)
}

// standing is where a workspace stands in the order, whatever is wished for it.
func standing(container, volume, archive bool) Phase {
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
