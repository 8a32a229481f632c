package planner_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// volume is a labelled home volume.
func volume(opID string) *workspace.Volume {
	return &workspace.Volume{OpID: opID, CreatedAt: now.Add(-time.Minute)}
}

// archived returns a row in ARCHIVED with the archive K1, and its observation.
func archived(desired workspace.DesiredState) (workspace.Workspace, workspace.Observation) {
	w, o := at(workspace.PhaseArchived)
	w.DesiredState, w.HomeCtx.RestoreMarker = desired, ""
	return w, o
}

// during returns a row in the middle of an operation on the volume A.
func during(op workspace.Operation, desired workspace.DesiredState) (workspace.Workspace, workspace.Observation) {
	w, o := at(workspace.PhaseStandby)
	w.Operation, w.OpStartedAt, w.DesiredState = op, now.Add(-time.Minute), desired
	w.HomeCtx.VolumeOpID, o.Volume = "A", volume("A")
	return w, o
}

// TestDatabaseOlderThanReality is SPEC 12.9: the row was restored from a backup, and the volume holds newer
// files. Nothing is restored over it, and it is not deleted.
func TestDatabaseOlderThanReality(t *testing.T) {
	exited := &workspace.Container{ExitCode: 137, Volume: true, StartedAt: now.Add(-time.Minute), FinishedAt: now}
	for name, c := range map[string]struct {
		row  func() (workspace.Workspace, workspace.Observation)
		seen func(*workspace.Workspace, *workspace.Observation)
	}{
		"ARCHIVED K1, woken; the volume was made since": {
			func() (workspace.Workspace, workspace.Observation) { return archived(workspace.DesiredRunning) },
			func(_ *workspace.Workspace, o *workspace.Observation) { o.Volume = volume("B") },
		},
		"ARCHIVED K1, asleep; the volume was made since": {
			func() (workspace.Workspace, workspace.Observation) { return archived(workspace.DesiredArchived) },
			func(_ *workspace.Workspace, o *workspace.Observation) { o.Volume = volume("B") },
		},
		"ARCHIVED K1; K1 was collected": {
			func() (workspace.Workspace, workspace.Observation) { return archived(workspace.DesiredRunning) },
			func(_ *workspace.Workspace, o *workspace.Observation) {
				o.Volume, o.Archive = volume("B"), workspace.Absent
			},
		},
		"ARCHIVED K1; a younger archive was made since": {
			func() (workspace.Workspace, workspace.Observation) { return archived(workspace.DesiredRunning) },
			func(_ *workspace.Workspace, o *workspace.Observation) { o.Younger = "K2" },
		},
		"PENDING, to be created as archived; an archive was made since": {
			func() (workspace.Workspace, workspace.Observation) { return at(workspace.PhasePending) },
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.DesiredState, o.Younger = workspace.DesiredArchived, "K2"
			},
		},
		"STANDBY on A; it was archived and restored as B": {
			func() (workspace.Workspace, workspace.Observation) { return at(workspace.PhaseStandby) },
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.HomeCtx.VolumeOpID, w.DesiredState, o.Volume = "A", workspace.DesiredArchived, volume("B")
			},
		},
		"PENDING, to be created as archived; it was provisioned since": {
			func() (workspace.Workspace, workspace.Observation) { return at(workspace.PhasePending) },
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.DesiredState, o.Volume = workspace.DesiredArchived, volume("B")
			},
		},
		"RESTORING into A; A was restored, used and stopped long ago": {
			func() (workspace.Workspace, workspace.Observation) {
				return during(workspace.OpRestoring, workspace.DesiredRunning)
			},
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.ArchiveKey, w.HomeCtx.RestoreMarker, o.Archive = "K1", "", workspace.Present
				w.HomeCtx.RestoreVolumeAt = now.Add(-2 * time.Hour)
			},
		},
		"RESTORING into A, begun by an earlier release; A was restored, used and stopped long ago": {
			func() (workspace.Workspace, workspace.Observation) {
				return during(workspace.OpRestoring, workspace.DesiredRunning)
			},
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.ArchiveKey, w.HomeCtx.RestoreMarker, o.Archive = "K1", "", workspace.Present
				w.OpStartedAt = now.Add(-2 * time.Hour)
			},
		},
		"RESTORING into A; its container has been used": {
			func() (workspace.Workspace, workspace.Observation) {
				return during(workspace.OpRestoring, workspace.DesiredRunning)
			},
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.ArchiveKey, w.HomeCtx.RestoreMarker, o.Archive, o.Container = "K1", "", workspace.Present, exited
			},
		},
		"ARCHIVING A; it was archived, dropped and restored as B": {
			func() (workspace.Workspace, workspace.Observation) {
				return during(workspace.OpArchiving, workspace.DesiredArchived)
			},
			func(w *workspace.Workspace, o *workspace.Observation) {
				w.ArchiveOpID, w.ArchiveKey, o.Volume = "op", id.ArchiveKey("op"), volume("B")
				o.Archive = workspace.Present
			},
		},
	} {
		w, o := c.row()
		c.seen(&w, &o)
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Next.Phase != workspace.PhaseError || d.Next.ErrorReason != workspace.ReasonConflict ||
			d.Next.Operation != workspace.OpNone || d.Action != planner.ActDeleteJobs {
			t.Errorf("%s: %s %s %s %q, want ERROR Conflict", name, d.Next.Phase, d.Next.ErrorReason, d.Next.Operation, d.Action)
		}
		again := planner.Reconcile(now, d.Next, o, false, policy())
		if again.Action != planner.ActNothing || again.Next.ErrorCount != d.Next.ErrorCount {
			t.Errorf("%s: then %q, failure %d, want nothing", name, again.Action, again.Next.ErrorCount)
		}
		if o.Volume == nil {
			continue
		}
		// While people work in the container, it also stays in use.
		o.Container = running
		for _, row := range []workspace.Workspace{w, d.Next} {
			d = planner.Reconcile(now, row, o, false, policy())
			n := d.Next
			if d.Action != planner.ActNothing || n.Operation != workspace.OpNone || n.Endpoint != running.Endpoint ||
				n.Waiting == nil || n.Waiting.Reason != workspace.WaitConflict || row.Phase != workspace.PhaseError && n.Phase != workspace.PhaseRunning {
				if row.Operation == workspace.OpArchiving && row.HomeCtx.VolumeOpID == o.Volume.OpID {
					continue
				}
				t.Errorf("%s, in use: %s %s %q, endpoint %q, waiting %+v", name, n.Phase, n.Operation, d.Action, n.Endpoint, n.Waiting)
			}
		}
	}
}

// TestARestoreGoesOnWhateverTheEnginesClockSays: another leader uses only the database's clock to decide how old a
// volume is.
func TestARestoreGoesOnWhateverTheEnginesClockSays(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		w, o := archived(workspace.DesiredRunning)
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Action != planner.ActProvision || !d.Next.HomeCtx.RestoreVolumeAt.Equal(now) {
			t.Fatalf("%s: %q, asked for at %s", skew, d.Action, d.Next.HomeCtx.RestoreVolumeAt)
		}
		o.Volume = &workspace.Volume{OpID: d.Next.HomeCtx.VolumeOpID, CreatedAt: now.Add(skew)}
		for after, want := range map[time.Duration]planner.Action{time.Minute: planner.ActStartRestore, time.Hour: planner.ActDeleteJobs} {
			next := planner.Reconcile(now.Add(after), d.Next, o, false, policy())
			if next.Action != want || (next.Next.ErrorReason == workspace.ReasonConflict) != (want == planner.ActDeleteJobs) {
				t.Errorf("%s, after %s: %q %s %s", skew, after, next.Action, next.Next.ErrorReason, next.Next.ErrorMessage)
			}
		}
	}
}

// TestAChosenArchiveMayBeOlder than others, until the next one is made.
func TestAChosenArchiveMayBeOlder(t *testing.T) {
	w, o := archived(workspace.DesiredRunning)
	w.Recovery = &workspace.Recovery{ID: "1", Choice: workspace.RecoverArchive, Key: "key", Newest: "K2"}
	w.ArchiveOpID = "other"
	w = planner.Reconcile(now, w, o, false, policy()).Next
	if w.HomeCtx.Newest != "K2" || w.ArchiveOpID != "" {
		t.Fatalf("%+v, op %q", w.HomeCtx, w.ArchiveOpID)
	}
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Operation != workspace.OpRestoring {
		t.Fatalf("%s %s, want RESTORING", n.Operation, n.ErrorReason)
	}
	o.Younger = "K3" // newer than K2, and unknown to any person
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.ErrorReason != workspace.ReasonConflict {
		t.Fatalf("%s %s, want Conflict", n.Operation, n.ErrorReason)
	}
	w, o = during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveOpID, w.HomeCtx.Newest = "op", "K2"
	o.Upload, o.UploadSize = workspace.Present, 1
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Size: 1}}
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.HomeCtx.Newest != "" || n.ArchiveKey != id.ArchiveKey("op") {
		t.Errorf("archived as %s, newest %q", n.ArchiveKey, n.HomeCtx.Newest)
	}
}

// TestArchivingAnOlderRow: a row from the middle of ARCHIVING describes an intention, not the volume's present
// content. The volume is archived again and kept until then.
func TestArchivingAnOlderRow(t *testing.T) {
	w, o := during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveOpID = "op"
	o.Upload = workspace.Present // complete, and older than the volume
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Action != planner.ActStartArchive || d.Next.ArchiveOpID != "new-op" {
		t.Errorf("before the key was saved: %q under %q, want a new upload", d.Action, d.Next.ArchiveOpID)
	}
	w.ArchiveKey, w.HomeCtx.RestoreMarker, w.HomeCtx.Dirty = id.ArchiveKey("op"), id.ArchiveKey("op"), false
	o.Archive = workspace.Present
	d = planner.Reconcile(now, w, o, false, policy())
	if d.Action != planner.ActStartArchive || d.Next.ArchiveOpID != "new-op" || !d.Next.HomeCtx.Dirty {
		t.Errorf("after the key was saved: %q under %q, want a new upload", d.Action, d.Next.ArchiveOpID)
	}
	o.Container = running
	d = planner.Reconcile(now, w, o, false, policy())
	if n := d.Next; d.Action != planner.ActNothing || n.Operation != workspace.OpNone || n.Phase != workspace.PhaseRunning || !n.HomeCtx.Dirty {
		t.Errorf("in use: %s %s %q, dirty %v", n.Phase, n.Operation, d.Action, n.HomeCtx.Dirty)
	}
	o.Container = nil
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Size: 7}}
	o.UploadSize = 7
	if d = planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDropArchivedVolume || d.VolumeOpID != "A" {
		t.Errorf("with its job: %q of %q, want the volume dropped", d.Action, d.VolumeOpID)
	}
}

// TestEachRestoreMakesItsOwnVolume: the remains of an interrupted restore are deleted by their own name while the
// archive exists, and are never overwritten.
func TestEachRestoreMakesItsOwnVolume(t *testing.T) {
	w, o := archived(workspace.DesiredRunning)
	w.HomeCtx.VolumeOpID, o.Volume = "A", volume("A")
	d := planner.Reconcile(now, w, o, false, policy())
	h := d.Next.HomeCtx
	if d.Action != planner.ActDropStaleVolume || d.VolumeOpID != "A" || h.VolumeOpID != "new-op" || h.StaleVolumeOpID != "A" {
		t.Fatalf("%q of %q, then %+v", d.Action, d.VolumeOpID, h)
	}
	w = d.Next
	if d = planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDropStaleVolume {
		t.Errorf("still there: %q", d.Action)
	}
	unknown := o
	unknown.Archive = workspace.Unknown
	if d = planner.Reconcile(now, w, unknown, false, policy()); d.Action != planner.ActNothing {
		t.Errorf("without the archive: %q", d.Action)
	}
	o.Volume = nil
	if d = planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActProvision {
		t.Errorf("gone: %q", d.Action)
	}
	o.Volume = volume("new-op")
	if d = planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActStartRestore {
		t.Errorf("made: %q", d.Action)
	}
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "new-op", State: workspace.JobSucceeded}}
	if d = planner.Reconcile(now, w, o, false, policy()); d.Next.Phase != workspace.PhaseStandby || d.Next.HomeCtx.StaleVolumeOpID != "" {
		t.Errorf("restored: %s %+v", d.Next.Phase, d.Next.HomeCtx)
	}
}

// TestAVolumeIsKeptWithoutItsJobs: the row is older than a restore whose job still runs. A user who keeps the
// volume does not get that job's later writes.
func TestAVolumeIsKeptWithoutItsJobs(t *testing.T) {
	w, o := archived(workspace.DesiredRunning)
	w.Phase, w.Recovery = workspace.PhaseError, &workspace.Recovery{ID: "1", Choice: workspace.RecoverVolume, VolumeOpID: "R"}
	o.Volume, o.Jobs = volume("R"), []workspace.Job{{Kind: workspace.JobRestore, OpID: "R", State: workspace.JobRunning}}
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Action != planner.ActDeleteJobs || d.Next.HomeCtx.RecoveryID != "" || d.Next.Conditions.True(workspace.VolumeReady) {
		t.Fatalf("%q, recovered %q, while the job runs", d.Action, d.Next.HomeCtx.RecoveryID)
	}
	o.Jobs = nil
	if n := planner.Reconcile(now, d.Next, o, false, policy()).Next; n.HomeCtx.RecoveryID != "1" || n.HomeCtx.VolumeOpID != "R" {
		t.Errorf("without it: recovered %q, volume %q", n.HomeCtx.RecoveryID, n.HomeCtx.VolumeOpID)
	}
}

// TestHalfRestoredVolumeIsRemoved: a half-restored volume is removed if its archived workspace should stay archived and
// the archive was seen. No volume other than the workspace's own is removed.
func TestHalfRestoredVolumeIsRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*workspace.Workspace, *workspace.Observation)
		want   planner.Action
	}{
		"its own":               {func(*workspace.Workspace, *workspace.Observation) {}, planner.ActDropStaleVolume},
		"the archive not asked": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Unknown }, planner.ActNothing},
		"from before labels": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.HomeCtx.VolumeOpID, o.Volume = "", homeVolume
		}, planner.ActNothing},
		"written to since": {func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.Dirty = true }, planner.ActNothing},
		"a container next to it": {func(_ *workspace.Workspace, o *workspace.Observation) {
			o.Container = &workspace.Container{ExitCode: 1}
		}, planner.ActDeleteContainer},
		"the volumes are unknown": {func(_ *workspace.Workspace, o *workspace.Observation) { o.Unseen = workspace.SensorVolumes }, planner.ActNothing},
	} {
		w, o := archived(workspace.DesiredArchived)
		w.HomeCtx.VolumeOpID, o.Volume = "A", volume("A")
		c.change(&w, &o)
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != c.want {
			t.Errorf("%s: %q, want %q", name, d.Action, c.want)
		}
	}
}

// TestRecoveryIsCarriedOutOnce is SPEC 12.9: the choice decides, and never anything else.
func TestRecoveryIsCarriedOutOnce(t *testing.T) {
	type result struct {
		key, marker, volume string
		dirty               bool
		action              planner.Action
		reason              workspace.ErrorReason
	}
	for name, c := range map[string]struct {
		recovery workspace.Recovery
		volume   *workspace.Volume
		want     result
	}{
		"retry": {workspace.Recovery{Choice: workspace.RecoverRetry}, volume("A"), result{key: "K1", volume: "A", dirty: true}},
		"the volume": {workspace.Recovery{Choice: workspace.RecoverVolume}, volume("B"),
			result{key: "K1", marker: "K1", volume: "B", dirty: true}},
		"the volume that is gone again": {workspace.Recovery{Choice: workspace.RecoverVolume}, nil,
			result{key: "K1", volume: "A", dirty: true, action: planner.ActDeleteJobs, reason: workspace.ReasonDataLost}},
		"another volume than was seen": {workspace.Recovery{Choice: workspace.RecoverVolume, VolumeOpID: "C"}, volume("B"),
			result{key: "K1", volume: "A", dirty: true, action: planner.ActDeleteJobs, reason: workspace.ReasonConflict}},
		"an archive":          {workspace.Recovery{Choice: workspace.RecoverArchive, Key: "K2"}, nil, result{key: "K2"}},
		"an archive, instead": {workspace.Recovery{Choice: workspace.RecoverArchive, Key: "K2", ReplaceVolume: true, VolumeOpID: "B"}, volume("B"), result{key: "K2", volume: "B"}},
		"an archive, but a volume": {workspace.Recovery{Choice: workspace.RecoverArchive, Key: "K2"}, volume("B"),
			result{key: "K1", volume: "A", dirty: true, action: planner.ActDeleteJobs, reason: workspace.ReasonConflict}},
		"empty": {workspace.Recovery{Choice: workspace.RecoverEmpty}, nil, result{}},
		"empty, but a volume": {workspace.Recovery{Choice: workspace.RecoverEmpty}, volume("A"),
			result{key: "K1", volume: "A", dirty: true, action: planner.ActDeleteJobs, reason: workspace.ReasonConflict}},
		"empty, instead of another volume": {workspace.Recovery{Choice: workspace.RecoverEmpty, ReplaceVolume: true, VolumeOpID: "A"}, volume("B"),
			result{key: "K1", volume: "A", dirty: true, action: planner.ActDeleteJobs, reason: workspace.ReasonConflict}},
	} {
		w, o := at(workspace.PhaseStandby)
		w.Phase, w.DesiredState, w.ArchiveKey = workspace.PhaseError, workspace.DesiredRunning, "K1"
		w.HomeCtx.VolumeOpID, o.Volume = "A", c.volume
		c.recovery.ID = "1"
		w.Recovery = &c.recovery
		d := planner.Reconcile(now, w, o, false, policy())
		h := d.Next.HomeCtx
		if got := (result{d.Next.ArchiveKey, h.RestoreMarker, h.VolumeOpID, h.Dirty, d.Action, d.Next.ErrorReason}); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if h.RecoveryID != "1" || d.Next.Operation != workspace.OpNone {
			t.Errorf("%s: it is not noted as done, or something was begun: %+v", name, d.Next)
		}
		if ask := questions(now, w, o); ask.Archive || ask.Upload {
			t.Errorf("%s: it asks the object store first", name)
		}
	}
	// An empty home was chosen instead of the volume: first the container, the jobs and the volume are removed by name.
	w, o := at(workspace.PhaseStandby)
	w.Phase, w.HomeCtx.VolumeOpID = workspace.PhaseError, "A"
	w.Recovery = &workspace.Recovery{ID: "1", Choice: workspace.RecoverEmpty, ReplaceVolume: true, VolumeOpID: "B"}
	o.Volume, o.Container, o.Jobs = volume("B"), running, []workspace.Job{{Kind: workspace.JobArchive}}
	for _, want := range []planner.Action{planner.ActDeleteJobs, planner.ActDeleteContainer, planner.ActDeleteVolume} {
		d := planner.Reconcile(now, w, o, false, policy())
		if d.Action != want || d.Next.HomeCtx.RecoveryID != "" || want == planner.ActDeleteVolume && d.VolumeOpID != "B" {
			t.Errorf("%q of %q, want %q", d.Action, d.VolumeOpID, want)
		}
		switch want {
		case planner.ActDeleteJobs:
			o.Jobs = nil
		case planner.ActDeleteContainer:
			o.Container = nil
		}
	}
	o.Volume = nil
	w = planner.Reconcile(now, w, o, false, policy()).Next
	w.DesiredState = workspace.DesiredRunning
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Action != planner.ActProvision || d.Next.HomeCtx.VolumeOpID != "new-op" {
		t.Errorf("then %q as %q, want a new volume", d.Action, d.Next.HomeCtx.VolumeOpID)
	}
	o.Unseen = workspace.SensorVolumes
	w.HomeCtx.RecoveryID = ""
	if d := planner.Reconcile(now, w, o, false, policy()); d.Changed || d.Action != planner.ActNothing {
		t.Errorf("without having seen: %q", d.Action)
	}
}

// TestMissingArchiveOfARestore: a job's report that the archive is missing is not enough.
func TestMissingArchiveOfARestore(t *testing.T) {
	w, o := during(workspace.OpRestoring, workspace.DesiredRunning)
	w.ArchiveKey, w.HomeCtx.RestoreMarker, w.HomeCtx.RestoreOpID, w.Conditions = "K1", "", "R", conditions(false, true, false)
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "R", State: workspace.JobFailed, Reason: workspace.ReasonDataLost, Message: "no such object"}}
	if !questions(now, w, o).Archive {
		t.Error("the object store is not asked")
	}
	if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActNothing || d.Next.ErrorReason != "" {
		t.Errorf("not asked yet: %s %q", d.Next.ErrorReason, d.Action)
	}
	o.Archive = workspace.Present
	d := planner.Reconcile(now, w, o, false, policy())
	if d.Next.ErrorReason != workspace.ReasonActionFailed || d.Next.Operation != workspace.OpRestoring ||
		d.Next.HomeCtx.StaleVolumeOpID != "A" || d.Next.HomeCtx.VolumeOpID != "new-op" {
		t.Errorf("it exists: %s %s %+v, want another attempt with a volume of its own", d.Next.ErrorReason, d.Next.Operation, d.Next.HomeCtx)
	}
	o.Archive = workspace.Absent
	if d = planner.Reconcile(now, w, o, false, policy()); d.Next.ErrorReason != workspace.ReasonDataLost || !strings.Contains(d.Next.ErrorMessage, "K1") {
		t.Errorf("it does not: %s %q", d.Next.ErrorReason, d.Next.ErrorMessage)
	}
}
