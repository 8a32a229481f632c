package planner_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestNothingIsLost drives one workspace through random changes of the desired state, and crashes of the controller
// between any save and its action. Actuators, jobs and sensors fail, and an object store is unreachable or refuses.
// Deletions are undone, databases are restored to an older state, engines are exchanged, and recoveries are requested.
// A backend waits for a node, an image or a quota, or a node does not report; then it may be unknown whether its
// volume stays. The workspace dozes and is used again. The test checks the contracts of SPEC 1 and 12 after every
// step. The newest content that the owner wrote is never lost, unless it was deleted permanently or given up by a
// choice. At the end, without further faults, the workspace must reach the desired state.
func TestNothingIsLost(t *testing.T) {
	seed.Rapid(t, func(t *rapid.T) {
		h := newHarness()
		older := rapid.Bool().Draw(t, "with older databases and other engines")
		steps := rapid.IntRange(10, 150).Draw(t, "steps")
		for range steps {
			disturb(t, h)
			if older {
				disturbReality(t, h)
			}
			h.now = h.now.Add(rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 10 * time.Minute}).Draw(t, "clock"))
			d := reconcile(t, h, older)
			switch rapid.SampledFrom([]string{"act", "act", "act", "act", "crash", "fail", "wait"}).Draw(t, "outcome") {
			case "act":
				h.act(t, d.Action)
			case "fail":
				if d.Action != planner.ActNothing {
					h.fail(d.Action, rapid.SampledFrom([]workspace.ErrorReason{
						workspace.ReasonActionFailed, workspace.ReasonUnreachable, workspace.ReasonImagePullFailed,
					}).Draw(t, "reason"))
				}
			case "wait":
				if d.Action != planner.ActNothing {
					h.mustWait(d.Action, workspace.WaitTerminating)
				}
			}
			checkInvariants(t, h, older)
		}
		settle(t, h, older)
	})
}

// mayChange reports whether the service accepts a change of the desired state: see package store.
func (h *harness) mayChange() bool {
	return h.row.Operation == workspace.OpNone || h.row.Waiting != nil
}

// disturb makes something happen outside the controller.
func disturb(t *rapid.T, h *harness) {
	switch rapid.SampledFrom([]string{"nothing", "desired", "write", "write", "job", "job", "jobfails", "crash",
		"recover", "delete", "undelete", "store", "sensors", "health", "doze", "use", "leader", "revert", "spoil", "backend", "backend"}).Draw(t, "event") {
	case "desired":
		if h.mayChange() && !h.deleted { // otherwise the service answers 409
			h.row.DesiredState = rapid.SampledFrom([]workspace.DesiredState{
				workspace.DesiredRunning, workspace.DesiredStandby, workspace.DesiredArchived,
			}).Draw(t, "desired")
			h.retryAt, h.row.DozeAt = time.Time{}, time.Time{}
		}
	case "write":
		h.write()
	case "job":
		h.endJob(true)
	case "jobfails":
		h.endJob(false)
	case "crash":
		h.crash()
	case "recover":
		h.recover(t)
	case "delete":
		if h.mayChange() && !h.deleted && rapid.IntRange(0, 3).Draw(t, "sure") == 0 {
			h.deleted = true
			h.row.DeletedAt, h.row.DesiredState, h.row.DozeAt = h.now, workspace.DesiredDeleted, time.Time{}
		}
	case "undelete":
		archiving := h.row.Operation == workspace.OpArchiving && h.mayChange()
		if h.deleted && (h.row.Operation == workspace.OpNone || archiving) && h.row.Phase != workspace.PhaseDeleted {
			h.deleted = false
			h.row.DeletedAt, h.row.DesiredState = time.Time{}, workspace.DesiredArchived
			h.forGood = !h.kept(true)
		}
	case "store":
		h.store = rapid.SampledFrom([]workspace.StoreAnswer{answers, answers, answers,
			{State: workspace.StoreAway, Message: "away"}, {State: workspace.StoreRefuses, Message: "403"}}).Draw(t, "store")
	case "sensors":
		h.unseen = rapid.SampledFrom([]workspace.Sensors{0, 0, 0, 0, workspace.SensorContainers, workspace.SensorVolumes,
			workspace.SensorJobs, workspace.AllSensors}).Draw(t, "unseen")
	case "revert":
		keys := slices.Sorted(maps.Keys(h.archives))
		if len(keys) > 0 {
			h.revert(rapid.SampledFrom(keys).Draw(t, "archive"))
		}
	case "spoil":
		if rapid.IntRange(0, 3).Draw(t, "spoils") == 0 {
			h.spoil(rapid.Bool().Draw(t, "remove"))
		}
	case "backend":
		h.keeps.disturb(t, h)
	case "doze":
		if h.row.Phase == workspace.PhaseRunning && h.row.Operation == workspace.OpNone && h.row.DesiredState == workspace.DesiredRunning {
			h.row.DozeAt = h.now
		}
	case "use":
		h.row.DozeAt = time.Time{}
	case "leader":
		h.begun = time.Time{}
	case "health":
		if h.container != nil && h.container.Running && h.container.Pending == nil {
			h.container.Health = rapid.SampledFrom([]workspace.Health{"", workspace.HealthUnhealthy, workspace.HealthPaused}).Draw(t, "health")
			h.container.Ready = h.container.Health == ""
		}
	}
	if h.deleted && !h.row.DeletedAt.IsZero() && h.now.Sub(h.row.DeletedAt) >= policy().KeepDeleted-10*time.Minute {
		h.forGood = true
	}
}

// disturbReality makes the database older than reality, or exchanges the engine for another one that an administrator
// has accepted.
func disturbReality(t *rapid.T, h *harness) {
	switch rapid.IntRange(0, 30).Draw(t, "reality") {
	case 0:
		if len(h.history) == 0 || h.deleted || h.noBackup {
			return
		}
		backup := rapid.IntRange(0, len(h.history)-1).Draw(t, "backup")
		row := h.history[backup]
		if row.Deleted() || recovering(row) {
			return
		}
		h.history = h.history[:backup]
		h.row, h.retryAt, h.begun = row, time.Time{}, time.Time{}
		h.row.ArchiveDamage = "" // until the scrub finds it again
		if h.archives[row.ArchiveKey].damaged {
			h.row.ArchiveDamage = "damaged"
		}
		h.now = h.now.Add(2 * time.Hour) // it is noticed and restored late
	case 1:
		if h.row.Operation != workspace.OpNone {
			return // an operation that continues elsewhere creates the same volume twice
		}
		other := h.engines[0]
		if h.engine == other {
			other = h.engines[1]
		}
		h.engine = other
	}
}

// recover handles an error as an administrator would: with a plain retry if the data is not in doubt, otherwise with a
// choice, which sometimes gives the volume up.
func (h *harness) recover(t *rapid.T) {
	r := &h.row
	reason, inUse := r.NeedsRecovery(), r.InUseInConflict()
	if reason == "" || h.deleted || h.volume == nil && inUse {
		return
	}
	h.recovery++
	choice := workspace.Recovery{ID: fmt.Sprint("recovery-", h.recovery), Choice: workspace.RecoverRetry}
	switch reason {
	case workspace.ReasonDataLost, workspace.ReasonConflict, workspace.ReasonArchiveCorrupted, workspace.ReasonContainerWithoutVolume:
		newest, version := "", 0
		for key, a := range h.archives {
			if a.version >= version && !a.damaged {
				newest, version = key, a.version
			}
		}
		h.forGood, h.dropped = false, false // from here on the choice counts
		replace := !inUse && rapid.IntRange(0, 3).Draw(t, "replace") == 0
		switch {
		case h.volume != nil && !h.volume.torn && !replace:
			choice.Choice = workspace.RecoverVolume
			// Keeping the remains of a restore with the row's content makes that content newer than an older
			// row can know.
			h.noBackup = h.noBackup || h.volume.opID == r.HomeCtx.VolumeOpID
			h.written = h.volume.version
		case newest != "" && (h.volume == nil || replace):
			choice.Choice, choice.Key, choice.ReplaceVolume = workspace.RecoverArchive, newest, replace
			h.written = version
		case h.volume == nil || replace:
			choice.Choice, choice.ReplaceVolume = workspace.RecoverEmpty, replace
			h.written = 0
		default:
			choice.Choice, choice.ReplaceVolume = workspace.RecoverEmpty, true
			h.written = 0
		}
	}
	if h.volume != nil {
		choice.VolumeOpID = h.volume.opID
	}
	latest := -1
	for key, a := range h.archives {
		if a.made > latest {
			choice.Newest, latest = key, a.made
		}
	}
	r.Recovery = &choice
	r.ErrorReason, r.ErrorMessage, r.ErrorCount = "", "", 0
	h.forGood = h.forGood && !h.kept(true)
	h.retryAt = time.Time{}
}

// reconcile reconciles once and checks everything that a decision must hold.
func reconcile(t *rapid.T, h *harness, older bool) planner.Decision {
	t.Helper()
	waited := h.now.Before(h.retryAt)
	d, was := h.reconcile()
	checkStep(t, h, was, d, waited, older)
	checkRoute(t, h, was)
	checkInvariants(t, h, older)
	return d
}

// toward lists the operations of SPEC 3 that lead to each desired state.
var toward = map[workspace.DesiredState][]workspace.Operation{
	workspace.DesiredRunning:  {workspace.OpProvisioning, workspace.OpRestoring, workspace.OpStarting},
	workspace.DesiredStandby:  {workspace.OpProvisioning, workspace.OpRestoring, workspace.OpStopping},
	workspace.DesiredArchived: {workspace.OpCreateEmptyArchive, workspace.OpStopping, workspace.OpArchiving},
	workspace.DesiredDeleted:  {workspace.OpStopping, workspace.OpArchiving, workspace.OpDeleting},
}

// actuators lists the actions that each operation may call. Jobs may be removed at any time; the harness checks that no
// job is removed that is running and needed.
var actuators = map[workspace.Operation][]planner.Action{
	workspace.OpNone:               {planner.ActDropStaleVolume, planner.ActFreeze, planner.ActThaw},
	workspace.OpCreateEmptyArchive: {planner.ActCreateEmptyArchive},
	workspace.OpProvisioning:       {planner.ActProvision},
	workspace.OpRestoring:          {planner.ActDeleteContainer, planner.ActProvision, planner.ActStartRestore, planner.ActDropStaleVolume},
	workspace.OpStarting:           {planner.ActStart, planner.ActDeleteContainer},
	workspace.OpStopping:           {planner.ActDeleteContainer},
	workspace.OpArchiving:          {planner.ActDeleteContainer, planner.ActStartArchive, planner.ActDropArchivedVolume},
	workspace.OpDeleting:           {planner.ActDeleteContainer, planner.ActDeleteVolume},
}

// checkStep checks the decision that led from was to the present row.
func checkStep(t *rapid.T, h *harness, was workspace.Workspace, d planner.Decision, waited, older bool) {
	t.Helper()
	r := h.row
	switch {
	case was.Operation != workspace.OpNone && r.Operation != workspace.OpNone && was.Operation != r.Operation:
		t.Fatalf("operation %s was replaced by %s before it ended", was.Operation, r.Operation)
	case was.Operation == workspace.OpNone && r.Operation != workspace.OpNone && !slices.Contains(toward[r.Wanted()], r.Operation):
		t.Fatalf("%s does not lead to %s", r.Operation, r.Wanted())
	case was.Operation == workspace.OpNone && r.Operation != workspace.OpNone && waited:
		t.Fatalf("%s was started before the retry was due", r.Operation)
	case h.keeps.doubt != "" && h.volume != nil && d.Action == planner.ActDeleteContainer && !r.DeleteNow:
		t.Fatalf("%s with a volume that may go with it", d.Action)
	case h.blind() != 0 && d.Action.Destructive() && d.Action != planner.ActDeleteContainer && d.Action != planner.ActDeleteJobs:
		t.Fatalf("action %s without having seen %b", d.Action, h.blind())
	case d.Action == planner.ActFreeze && (r.DozeAt.IsZero() || h.blind()&workspace.SensorContainers != 0):
		t.Fatalf("it is frozen although it is not to doze: %+v", r)
	case recovering(was): // a recovery may act before any operation
	case d.Action == planner.ActDeleteContainer && r.Operation == workspace.OpNone && was.Operation == workspace.OpStarting &&
		h.container.Pending != nil && h.container.Pending.Failure != "": // the remains of the attempt
	case d.Action != planner.ActNothing && d.Action != planner.ActDeleteJobs && !slices.Contains(actuators[r.Operation], d.Action):
		t.Fatalf("action %s during %s", d.Action, r.Operation)
	case r.ErrorCount > was.ErrorCount+1 && r.ErrorReason != workspace.ReasonRetryExceeded: // a crash loop counts all its crashes at once
		t.Fatalf("one decision counted %d failures", r.ErrorCount-was.ErrorCount)
	case r.Phase != was.Phase && !r.PhaseChangedAt.Equal(h.now), r.Phase == was.Phase && !r.PhaseChangedAt.Equal(was.PhaseChangedAt):
		t.Fatalf("phase %s became %s, and phase_changed_at is %s", was.Phase, r.Phase, r.PhaseChangedAt)
	case d.Changed && !r.ObservedAt.Equal(h.now), !d.Changed && !r.ObservedAt.Equal(was.ObservedAt):
		t.Fatalf("changed: %v at %s, and observed_at is %s", d.Changed, h.now, r.ObservedAt)
	case r.DesiredState != was.DesiredState || !r.DeletedAt.Equal(was.DeletedAt) || r.Name != was.Name || r.ImageRef != was.ImageRef:
		t.Fatalf("the planner changed a column of the service layer: %+v, before %+v", r, was)
	}
	if r.HomeCtx.RevertID != was.HomeCtx.RevertID && r.HomeCtx.RevertProblem == "" {
		checkRevert(t, h, was, older)
	}
	for name, c := range r.Conditions {
		if old, ok := was.Conditions[name]; ok && old.Status == c.Status && !old.LastTransitionTime.Equal(c.LastTransitionTime) {
			t.Fatalf("%s stays %s, and last_transition_time changes", name, c.Status)
		}
	}
}

// checkRevert checks the step in which an older archive has become the current one. The replaced state must be in an
// archive, so that the owner can go back to it. From then on the owner wants the older state.
func checkRevert(t *rapid.T, h *harness, was workspace.Workspace, older bool) {
	t.Helper()
	r := h.row
	replaced := h.archives[was.ArchiveKey]
	switch {
	case r.ArchiveKey != was.Revert.Key:
		t.Fatalf("the revert to %s ended with %s", was.Revert.Key, r.ArchiveKey)
	case h.volume != nil || h.container != nil:
		t.Fatalf("reverted beside a volume %+v or a container %+v", h.volume, h.container)
	case !older && !h.forGood && (replaced.version != h.written || replaced.damaged):
		t.Fatalf("reverted although the present state (%d) is not in %s: %+v", h.written, was.ArchiveKey, replaced)
	case r.ArchiveKey != was.ArchiveKey && (r.HomeCtx.Replaced != was.ArchiveKey || r.HomeCtx.Newest == ""):
		t.Fatalf("no way back to %s: %+v", was.ArchiveKey, r.HomeCtx)
	}
	if r.ArchiveKey != was.ArchiveKey {
		h.wayBack = replaced.home
	}
	h.written = h.archives[r.ArchiveKey].version
}

// checkRoute checks the route after a decision that has seen the containers. The route leads only to a running
// container, and never to one that may be about to end. Every ready container has a route. Between decisions, a
// container that could not be deleted is ready and has no route.
func checkRoute(t *rapid.T, h *harness, was workspace.Workspace) {
	t.Helper()
	r := h.row
	if h.unseen&workspace.SensorContainers != 0 || recovering(was) { // the result of its action shows only in the next row
		return
	}
	switch ends := r.Operation == workspace.OpStopping || r.Operation == workspace.OpDeleting; {
	case !ends && r.Endpoint == "" && r.Conditions.True(workspace.ContainerReady):
		t.Fatalf("a ready container without an endpoint: %+v", r)
	case r.Endpoint != "" && (h.container == nil || !h.container.Running):
		t.Fatalf("a route to %s, where no container runs: %+v", r.Endpoint, r)
	case r.Endpoint != "" && h.container.Endpoint == "":
		t.Fatalf("a route to %s, which may be another's at any time: %+v", r.Endpoint, r)
	}
}

// recovering reports whether a recovery was pending.
func recovering(w workspace.Workspace) bool {
	return w.Recovery != nil && w.Recovery.ID != w.HomeCtx.RecoveryID
}

// checkInvariants checks the contracts that always hold.
func checkInvariants(t *rapid.T, h *harness, older bool) {
	t.Helper()
	r := h.row
	if r.Phase == workspace.PhaseError && r.Operation != workspace.OpNone {
		t.Fatalf("ERROR with operation %s", r.Operation)
	}
	if (r.Operation == workspace.OpNone) != r.OpStartedAt.IsZero() {
		t.Fatalf("operation %s started at %s", r.Operation, r.OpStartedAt)
	}
	ends := r.Operation == workspace.OpStopping || r.Operation == workspace.OpDeleting
	if ends && r.Endpoint != "" {
		t.Fatalf("%s, and there is still a route", r.Operation)
	}
	if !h.deleted && r.DeletedAt.IsZero() && r.Phase != workspace.PhaseError && r.Phase != workspace.PhaseDeleting && r.ErrorReason.Terminal() {
		t.Fatalf("phase %s with the terminal reason %s", r.Phase, r.ErrorReason)
	}
	if !h.forGood && !h.kept(older) {
		t.Fatalf("the owner's last write (%d) is lost: engines %+v %+v, archives %+v, row %+v", h.written, h.engines[0].volume, h.engines[1].volume, h.archives, r)
	}
	if !older && !h.deleted && !h.dropped && r.ErrorReason == workspace.ReasonDataLost && !strings.Contains(r.ErrorMessage, "has refused") {
		t.Fatalf("DataLost is reported although nothing is lost: %s", r.ErrorMessage)
	}
	// A restore may have been held up right after it created its volume, until another leader took over much later.
	// Such a restore cannot be distinguished from one that took place long ago.
	if !older && r.ErrorReason == workspace.ReasonConflict && !strings.Contains(r.ErrorMessage, "long before the restore") {
		t.Fatalf("Conflict is reported although the database is right: %s", r.ErrorMessage)
	}
	if back, ok := h.archives[r.HomeCtx.Replaced]; ok && !older && r.HomeCtx.Replaced != "" && back.home != h.wayBack {
		t.Fatalf("the way back %s holds %+v, want %+v", r.HomeCtx.Replaced, back, h.wayBack)
	}
	if r.Phase == workspace.PhaseStandby && h.unseen == 0 && h.volume != nil && h.volume.torn {
		t.Fatal("a half-restored volume is STANDBY")
	}
}

// settle stops the faults and expects convergence within a bounded number of steps.
func settle(t *rapid.T, h *harness, older bool) {
	h.store, h.unseen = answers, 0
	h.keeps.end(h)
	h.row.DozeAt = time.Time{}
	for range 80 {
		h.recover(t)
		if h.container != nil && h.container.Running && !h.frozen() {
			h.container.Health, h.container.Ready = "", true
		}
		h.now = h.now.Add(2 * time.Second)
		if h.row.Operation == workspace.OpNone {
			h.now = h.now.Add(20 * time.Minute) // longer than any pause
		}
		if h.deleted {
			h.forGood = true
		}
		d := reconcile(t, h, older)
		h.act(t, d.Action)
		h.endJob(true)
	}
	want := workspace.Phase(h.row.DesiredState)
	if h.deleted {
		want = workspace.PhaseDeleted
		if _, there := h.archives[h.row.ArchiveKey]; there {
			want = workspace.PhaseDeleting // until the GC has removed the archive
		}
		unknown := h.row.Conditions[workspace.VolumeReady].Reason == "VolumeNotRecorded"
		if (older || unknown) && h.volume != nil && h.row.Waiting != nil {
			return // found after the deletion: only an administrator gives it up
		}
		if h.container != nil || h.volume != nil {
			t.Fatalf("a deleted workspace keeps its container %+v or volume %+v: %+v", h.container, h.volume, h.row)
		}
		if h.row.AwaitsGC != (want == workspace.PhaseDeleting) {
			t.Fatalf("awaits GC: %v in %s", h.row.AwaitsGC, h.row.Phase)
		}
	}
	if h.row.Phase != want || h.row.Operation != workspace.OpNone {
		t.Fatalf("not converged: phase %s operation %s, want %s; %+v", h.row.Phase, h.row.Operation, want, h.row)
	}
	if h.frozen() {
		t.Fatalf("it stays frozen: %+v", h.row)
	}
	if d := reconcile(t, h, older); d.Changed || d.Action != planner.ActNothing {
		t.Fatalf("converged, but there is still something to do: %+v", d)
	}
	if !older && !h.forGood && h.row.Phase == workspace.PhaseRunning && h.volume.version != h.written {
		t.Fatalf("version %d is running, the owner wrote %d", h.volume.version, h.written)
	}
}
