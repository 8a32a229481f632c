package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// traits describe what an operation needs, and how it waits.
type traits struct {
	// timeout is the default limit without progress (SPEC 3).
	timeout time.Duration
	// sensors are required for it to continue.
	sensors workspace.Sensors
	// usesStore means that the operation does not begin before the object store answers.
	usesStore bool
	// makesHome means that the operation creates the workspace's data, from nothing or from the archive that the row
	// knows.
	makesHome bool
	// needsDisk means that it brings a home to the disk. A workspace whose home is there already starts even if
	// the disk is full.
	needsDisk bool
	// yields means that the operation is postponed, without an error, when it has waited beyond its limit for
	// resources from outside. Until these are available, the desired state may change (SPEC 1, contract 4).
	yields bool
	// job is the storage job that it needs. The operation begins only when there is a place for the job: until
	// then the workspace can still be opened or left as it is.
	job workspace.JobKind
}

// operations has a row for each operation of SPEC 3.
var operations = map[workspace.Operation]traits{
	workspace.OpCreateEmptyArchive: {
		timeout: 5 * time.Minute, sensors: workspace.SensorVolumes, usesStore: true, makesHome: true,
	},
	workspace.OpProvisioning: {
		timeout: 5 * time.Minute, sensors: workspace.SensorVolumes, makesHome: true, needsDisk: true, yields: true,
	},
	workspace.OpRestoring: {
		timeout: 30 * time.Minute, sensors: workspace.AllSensors,
		usesStore: true, makesHome: true, needsDisk: true, yields: true, job: workspace.JobRestore,
	},
	workspace.OpStarting: {timeout: 5 * time.Minute, sensors: workspace.AllSensors, yields: true},
	workspace.OpStopping: {timeout: 5 * time.Minute, sensors: workspace.SensorContainers},
	workspace.OpArchiving: {
		timeout: 30 * time.Minute, sensors: workspace.AllSensors, usesStore: true, yields: true,
		job: workspace.JobArchive,
	},
	workspace.OpDeleting: {timeout: 10 * time.Minute, sensors: workspace.AllSensors},
}

const (
	// OperationLimit is the longest that an operation may take overall, even with progress (SPEC 3).
	OperationLimit = 24 * time.Hour
	// StableAfter is how long a container must have run for its exit not to count as a crash (SPEC 12.5).
	StableAfter = time.Minute
)

// DefaultTimeouts are the operations' limits of SPEC 3.
func DefaultTimeouts() map[workspace.Operation]time.Duration {
	limits := make(map[workspace.Operation]time.Duration, len(operations))
	for op, t := range operations {
		limits[op] = t.timeout
	}
	return limits
}
