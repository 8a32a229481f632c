package workspace

import (
	"fmt"
	"reflect"
	"time"
)

// Action is one call of an actuator. Which ones belong to an operation, and in
// which order, is SPEC 3.
type Action string

// The actions. Each is idempotent; each is followed by a fresh observation.
const (
	ActNothing            Action = ""
	ActProvision          Action = "provision"
	ActStart              Action = "start"
	ActDeleteContainer    Action = "delete_container"
	ActStartArchive       Action = "archive"
	ActStartRestore       Action = "restore"
	ActCreateEmptyArchive Action = "create_empty_archive"
	// ActDropArchivedVolume deletes the volume whose content archive_key holds.
	ActDropArchivedVolume Action = "drop_archived_volume"
	// ActDeleteVolume deletes the volume of a workspace that its owner deleted.
	ActDeleteVolume Action = "delete_volume"
	// ActDeleteJobs removes storage jobs that have ended or that nothing waits for.
	ActDeleteJobs Action = "delete_jobs"
)

// Destructive reports whether the action takes away the only running copy of
// something, so that the leadership is checked once more before it (SPEC 5). A
// restore does: it makes the volume equal to an archive, whatever it held.
func (a Action) Destructive() bool {
	switch a {
	case ActDeleteContainer, ActDropArchivedVolume, ActDeleteVolume, ActDeleteJobs, ActStartRestore:
		return true
	}
	return false
}

// Policy are the limits under which decisions are made.
type Policy struct {
	// Timeouts is how long each operation may take.
	Timeouts map[Operation]time.Duration
	// MaxRetry is the number of failures after which an operation ends in ERROR.
	MaxRetry int
	// StableAfter is how long a container must have lasted for its end not to
	// count as a crash right after the start.
	StableAfter time.Duration
	// NewOpID makes the id of a new archive or restore: a UUID.
	NewOpID func() string
}

// DefaultTimeouts are the operations' limits of SPEC 3.
func DefaultTimeouts() map[Operation]time.Duration {
	return map[Operation]time.Duration{
		OpProvisioning:       5 * time.Minute,
		OpStarting:           5 * time.Minute,
		OpStopping:           5 * time.Minute,
		OpRestoring:          30 * time.Minute,
		OpArchiving:          30 * time.Minute,
		OpDeleting:           10 * time.Minute,
		OpCreateEmptyArchive: 5 * time.Minute,
	}
}

// Decision is what one look at a workspace leads to: first Next is saved, and
// only when that succeeded is Action carried out. So an operation is always
// claimed before its actuator runs, and an archive's key is always saved before
// its volume is deleted (SPEC 1, contracts 4 and 8).
type Decision struct {
	Next    Workspace
	Action  Action
	Changed bool
}

// Reconcile decides the next step for one workspace. It is pure: the same values
// give the same decision, except for the ids of new operations.
//
// waiting says that an earlier attempt failed and its retry is not due yet:
// conditions are still observed and time still runs out, but nothing is begun.
func Reconcile(now time.Time, w Workspace, o Observation, waiting bool, p Policy) Decision {
	r := &round{now: now, was: w, o: o, p: p, waiting: waiting}
	r.next = w
	r.observe()
	r.judge()
	action := r.control()
	return r.decision(action)
}

// Failed is the decision after an actuator returned an error for w's operation.
func Failed(now time.Time, w Workspace, err error, p Policy) Decision {
	r := &round{now: now, was: w, next: w, p: p}
	return r.decision(r.fail(ReasonOf(err), err.Error()))
}

// round is one decision in the making.
type round struct {
	now     time.Time
	was     Workspace
	next    Workspace
	o       Observation
	p       Policy
	waiting bool
}

func (r *round) decision(a Action) Decision {
	if r.next.Phase != r.was.Phase {
		r.next.PhaseChangedAt = r.now
	}
	// An observation that found nothing new is not written: an idle tick writes no row.
	changed := !reflect.DeepEqual(r.next, r.was)
	if changed {
		r.next.ObservedAt = r.now
	}
	return Decision{Next: r.next, Action: a, Changed: changed}
}

// observe turns the observation into conditions (SPEC 2).
func (r *round) observe() {
	o, n := r.o, &r.next
	c := n.Conditions
	switch {
	case !o.Volume:
		c = c.with(VolumeReady, false, "VolumeMissing", "", r.now)
	case n.HomeCtx.RestoreMarker != n.ArchiveKey:
		c = c.with(VolumeReady, false, "NotRestored", "the volume does not hold the archive's content yet", r.now)
	default:
		c = c.with(VolumeReady, true, "VolumePresent", "", r.now)
	}
	switch {
	case n.ArchiveKey == "":
		c = c.with(ArchiveReady, false, "NoArchive", "", r.now)
	case o.Archive == Present:
		c = c.with(ArchiveReady, true, "ArchivePresent", "", r.now)
	case o.Archive == Absent:
		c = c.with(ArchiveReady, false, "ArchiveMissing", "the archive or its commit marker is not in the object store", r.now)
	}
	n.Endpoint = ""
	switch k := o.Container; {
	case k == nil:
		c = c.with(ContainerReady, false, "ContainerMissing", "", r.now)
	case k.Ready:
		c = c.with(ContainerReady, true, "ContainerRunning", "", r.now)
		n.Endpoint = k.Endpoint
	case k.Running:
		c = c.with(ContainerReady, false, "ContainerNotReady", "the container runs and does not take traffic yet", r.now)
	default:
		c = c.with(ContainerReady, false, "ContainerExited", fmt.Sprintf("the container ended with exit code %d", k.ExitCode), r.now)
	}
	// A container on another volume is no better than one without: what is written
	// there is not the workspace's.
	healthy := !c.True(ContainerReady) || c.True(VolumeReady) && o.Container.Volume
	reason := ""
	if !healthy {
		reason = string(ReasonContainerWithoutVolume)
	}
	n.Conditions = c.with(PolicyHealthy, healthy, reason, "", r.now)
}

// judge sets the phase that follows from the conditions. A phase ERROR that a
// failed operation left stays until recovery; that of a deleted workspace until
// its deletion can begin, because what is begun depends on it.
func (r *round) judge() {
	if r.stuck() && (!r.next.Deleted() || r.waiting || len(r.o.Jobs) > 0) {
		return
	}
	r.next.Phase = r.judged()
}

// judged is the phase that follows from what was observed. A workspace is not
// DELETED, and so never looked at again, before everything of it is gone: a volume
// that was not restored yet and a container that has ended meet no condition.
func (r *round) judged() Phase {
	p := Judge(r.next.Conditions, r.next.DeletedAt, r.next.ArchiveKey)
	if p == PhaseDeleted && (r.o.Container != nil || r.o.Volume) {
		return PhaseDeleting
	}
	return p
}

// stuck reports whether the workspace waits in ERROR for an administrator.
func (r *round) stuck() bool {
	return r.was.Phase == PhaseError && r.was.ErrorReason != ""
}

// standing is the workspace's place in the order, deleted or not.
func (r *round) standing() Phase {
	c := r.next.Conditions
	return standing(c.True(ContainerReady), c.True(VolumeReady), r.next.ArchiveKey != "" && c.True(ArchiveReady))
}

func (r *round) control() Action {
	n := &r.next
	lost := r.lost()
	if r.stuck() && !n.Deleted() {
		if lost != "" && n.ErrorReason != ReasonDataLost {
			// The next observation no longer tells, and after recovery nobody would know.
			return r.fail(ReasonDataLost, lost)
		}
		return r.strayJobs()
	}
	if !n.Deleted() && !n.Conditions.True(PolicyHealthy) {
		return r.fail(ReasonContainerWithoutVolume, "a container runs without the workspace's own volume")
	}
	if lost != "" {
		return r.fail(ReasonDataLost, lost)
	}
	r.forget()
	if n.Operation != OpNone {
		return r.proceed()
	}
	if a := r.strayJobs(); a != ActNothing {
		return a
	}
	if !n.Deleted() && r.crashed() {
		return ActNothing
	}
	return r.begin()
}

// strayJobs removes jobs that no operation waits for: one that still ran would
// write to the volume under the feet of what comes next.
func (r *round) strayJobs() Action {
	if r.next.Operation == OpNone && len(r.o.Jobs) > 0 {
		return r.act(ActDeleteJobs)
	}
	return ActNothing
}

// forget takes the marker from a volume that is gone while its archive is there
// and current. A volume of that name that appears later, made by a leader that was
// deposed in between, holds nothing and must not pass for the restored one.
func (r *round) forget() {
	n := &r.next
	if !r.o.Volume && r.o.Archive == Present && !n.HomeCtx.Dirty {
		n.HomeCtx.RestoreMarker = ""
	}
}

// lost says what can no longer be had of a workspace whose owner still wants it
// (SPEC 12.2). Nothing is provisioned empty, and nothing is restored from an
// older archive, where the data of a volume or an archive disappeared.
func (r *round) lost() string {
	n := r.next
	if n.Deleted() || n.Conditions.True(VolumeReady) {
		return ""
	}
	if n.ArchiveKey != "" && r.o.Archive == Absent && !r.uploaded() {
		return "the archive " + n.ArchiveKey + " is gone and no volume holds its content"
	}
	if r.o.Volume {
		return ""
	}
	archived := n.ArchiveKey != "" && n.Conditions.True(ArchiveReady)
	current := archived && n.HomeCtx.RestoreMarker == n.ArchiveKey && !n.HomeCtx.Dirty
	if r.was.Conditions.True(VolumeReady) && !current && !r.uploaded() {
		return "the home volume is gone and no archive holds its content"
	}
	return ""
}

// uploaded reports whether the running archive operation may still have, or may
// yet turn out to have, the whole content in the object store.
func (r *round) uploaded() bool {
	return r.next.Operation == OpArchiving && r.next.ArchiveKey != r.expectedKey() && r.o.Upload != Absent
}

// crashed counts containers that end by themselves soon after their start, and
// ends a loop of them in ERROR (SPEC 12.5).
func (r *round) crashed() bool {
	n, k := &r.next, r.o.Container
	if r.was.Phase != PhaseRunning || k == nil || k.Running || n.DesiredState != DesiredRunning {
		return false
	}
	n.HomeCtx.Crashes++
	if k.FinishedAt.Sub(k.StartedAt) >= r.p.StableAfter {
		n.HomeCtx.Crashes = 1
	}
	if n.HomeCtx.Crashes < r.p.MaxRetry {
		return false
	}
	n.ErrorCount = n.HomeCtx.Crashes - 1 // fail adds the last one
	n.HomeCtx.Crashes = 0
	r.fail(ReasonRetryExceeded, fmt.Sprintf("the container keeps ending right after its start, last with exit code %d", k.ExitCode))
	return true
}

// fail counts a failure. Terminal ones, and the last of MaxRetry, move the
// workspace to ERROR and end the operation in the same save; others leave the
// operation in place to be tried again. The jobs are removed in either case: a
// failed one stands in the way of the next attempt.
func (r *round) fail(reason ErrorReason, message string) Action {
	n := &r.next
	n.ErrorCount++
	if !reason.Terminal() && n.ErrorCount >= r.p.MaxRetry {
		message = fmt.Sprintf("%s (%d failures, the last: %s)", message, n.ErrorCount, reason)
		reason = ReasonRetryExceeded
	}
	n.ErrorReason, n.ErrorMessage = reason, message
	if reason.Terminal() {
		n.Phase = PhaseError
		n.Operation = OpNone
		n.OpStartedAt = time.Time{}
	}
	return ActDeleteJobs
}
