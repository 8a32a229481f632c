package planner_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// unchangedAt is a workspace that is being archived. Its job has found no change since the volume A had the content of
// K1.
func unchangedAt() (workspace.Workspace, workspace.Observation) {
	w, o := during(workspace.OpArchiving, workspace.DesiredArchived)
	w.ArchiveKey, w.ArchiveOpID = "K1", "op"
	w.HomeCtx.RestoreMarker = "K1"
	w.HomeCtx.Fingerprint = workspace.Fingerprint{Value: "F", VolumeOpID: "A", ArchiveKey: "K1", Size: 7, SHA256: "sum"}
	w.Conditions = conditions(true, true, false)
	o.Jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Unchanged: true, Fingerprint: "F"}}
	o.Archive, o.UploadSize, o.UploadSHA256 = workspace.Present, 7, "sum"
	return w, o
}

// TestUnchanged: the volume is deleted without a new archive only if everything confirms that the current archive has
// the volume's content. In doubt the home is archived.
func TestUnchanged(t *testing.T) {
	const (
		drops = "drops the volume"
		anew  = "archives anew"
		waits = "waits"
		fails = "fails"
	)
	for name, c := range map[string]struct {
		change func(*workspace.Workspace, *workspace.Observation)
		want   string
	}{
		"nothing has changed":              {nil, drops},
		"the checksum was not known":       {func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.Fingerprint.SHA256 = "" }, drops},
		"the archive is damaged":           {func(w *workspace.Workspace, _ *workspace.Observation) { w.ArchiveDamage = "damaged" }, anew},
		"the archive may be damaged":       {func(w *workspace.Workspace, _ *workspace.Observation) { w.ArchiveSuspected = true }, anew},
		"the archive is missing":           {func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Absent }, anew},
		"the store was not asked":          {func(_ *workspace.Workspace, o *workspace.Observation) { o.Archive = workspace.Unknown }, waits},
		"the archive has another size":     {func(_ *workspace.Workspace, o *workspace.Observation) { o.UploadSize = 8 }, anew},
		"the archive has another checksum": {func(_ *workspace.Workspace, o *workspace.Observation) { o.UploadSHA256 = "other" }, anew},
		"its commit marker is malformed":   {func(_ *workspace.Workspace, o *workspace.Observation) { o.UploadSHA256 = "" }, anew},
		"the job speaks of another state":  {func(_ *workspace.Workspace, o *workspace.Observation) { o.Jobs[0].Fingerprint = "G" }, anew},
		"the state is another archive's":   {func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.Fingerprint.ArchiveKey = "K0" }, anew},
		"the state is another volume's":    {func(w *workspace.Workspace, _ *workspace.Observation) { w.HomeCtx.Fingerprint.VolumeOpID = "B" }, anew},
		"the state names no boot": {func(w *workspace.Workspace, o *workspace.Observation) {
			w.HomeCtx.Fingerprint.Value, o.Jobs[0].Fingerprint = "1:F", "1:F"
		}, anew},
		"nothing was known": {func(w *workspace.Workspace, _ *workspace.Observation) {
			w.HomeCtx.Fingerprint = workspace.Fingerprint{}
		}, fails},
	} {
		for _, dirty := range []bool{false, true} {
			w, o := unchangedAt()
			w.HomeCtx.Dirty = dirty
			if c.change != nil {
				c.change(&w, &o)
			}
			d := planner.Reconcile(now, w, o, false, policy())
			if c.want == drops && dirty {
				// Saved first: from then on the archive is the data.
				if d.Action != planner.ActNothing || d.Next.HomeCtx.Dirty || !d.Changed {
					t.Errorf("%s: %q, dirty %v", name, d.Action, d.Next.HomeCtx.Dirty)
				}
				d = planner.Reconcile(now, d.Next, o, false, policy())
			}
			n := d.Next
			got := waits
			switch {
			case d.Action == planner.ActDropArchivedVolume && d.VolumeOpID == "A" && n.ArchiveKey == "K1":
				got = drops
			case d.Action == planner.ActDeleteJobs && n.Operation == workspace.OpArchiving && n.ArchiveOpID == "new-op" && n.KnownState() == "" && n.HomeCtx.Dirty:
				got = anew
			case d.Action == planner.ActDeleteJobs && n.Operation == workspace.OpNone && n.Waiting != nil && n.Waiting.Reason == workspace.WaitArchiveFailed:
				got = fails
			case d.Action != planner.ActNothing || n.Operation != workspace.OpArchiving:
				got = string(d.Action) + " " + string(n.Operation)
			}
			if got != c.want {
				t.Errorf("%s, dirty %v: %s, want %s", name, dirty, got, c.want)
			}
		}
	}
}

// When the volume is gone, the previous archive is looked up once more, and the workspace becomes ARCHIVED. If
// that archive is gone, too, the data is lost.
func TestUnchangedEndsWithTheArchiveFromBefore(t *testing.T) {
	w, o := unchangedAt()
	w.HomeCtx.Dirty = false
	o.Volume, o.Jobs, o.Upload = nil, nil, workspace.Absent
	if ask := questions(now, w, o); !ask.Archive || !ask.Upload {
		t.Errorf("asks for the archive %v, the upload %v", ask.Archive, ask.Upload)
	}
	o.Archive = workspace.Unknown
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Operation != workspace.OpArchiving {
		t.Errorf("without an answer: %s %s", n.Phase, n.Operation)
	}
	o.Archive = workspace.Present
	n := planner.Reconcile(now, w, o, false, policy()).Next
	if n.Phase != workspace.PhaseArchived || n.Operation != workspace.OpNone || n.ArchiveKey != "K1" || n.HomeCtx.Fingerprint != (workspace.Fingerprint{}) {
		t.Errorf("%s %s %s, %+v", n.Phase, n.Operation, n.ArchiveKey, n.HomeCtx)
	}
	o.Archive = workspace.Absent
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.ErrorReason != workspace.ReasonDataLost {
		t.Errorf("without the archive: %s %s", n.Phase, n.ErrorReason)
	}
}

// A decision records the new archive, and remembers the state of the volume.
func TestWhatIsRecordedOfAnArchive(t *testing.T) {
	w, o := unchangedAt()
	o.Jobs[0] = workspace.Job{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Size: 9, Content: 20, Files: 3, SHA256: "new", Fingerprint: "G"}
	o.Upload, o.UploadSize, o.UploadSHA256 = workspace.Present, 9, "new"
	d := planner.Reconcile(now, w, o, false, policy())
	want := workspace.ArchiveRecord{Size: 9, Content: 20, Files: 3, SHA256: "new"}
	if d.Archived == nil || *d.Archived != want {
		t.Errorf("archived: %+v", d.Archived)
	}
	if f := d.Next.HomeCtx.Fingerprint; f != (workspace.Fingerprint{Value: "G", VolumeOpID: "A", ArchiveKey: id.ArchiveKey("op"), Size: 9, SHA256: "new"}) {
		t.Errorf("remembered: %+v", f)
	}
	o.Jobs[0].Verified = true
	if d := planner.Reconcile(now, w, o, false, policy()); !d.Archived.Verified {
		t.Error("a job that has read its archive back counts as no verification")
	}
	o.Jobs = nil // the volume is gone, and the job's result is unknown
	o.Volume = nil
	if d := planner.Reconcile(now, w, o, false, policy()); d.Archived == nil || d.Archived.Verified {
		t.Errorf("without its job the archive is recorded as %+v", d.Archived)
	}

	w, o = during(workspace.OpRestoring, workspace.DesiredRunning)
	w.ArchiveKey, w.HomeCtx.RestoreMarker, w.HomeCtx.RestoreOpID = "K1", "", "A"
	o.Volume.CreatedAt = now.Add(-time.Minute)
	o.Jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: "A", State: workspace.JobSucceeded, Size: 7, Files: 2, SHA256: "sum", Fingerprint: "F"}}
	d = planner.Reconcile(now, w, o, false, policy())
	if d.Archived == nil || !d.Archived.Verified || d.Next.KnownState() != "F" {
		t.Errorf("restored: %+v, %+v", d.Archived, d.Next.HomeCtx)
	}
	o.Jobs[0].Files = 0 // an earlier run has read the archive, at an unknown time
	if d := planner.Reconcile(now, w, o, false, policy()); d.Archived == nil || d.Archived.Verified {
		t.Errorf("restored by an earlier run: %+v", d.Archived)
	}
}

// If a saved archive is found to be damaged, or is suspected, before its volume is deleted, then the volume stays and
// is archived again.
func TestAVolumeOutlivesAnArchiveThatMayBeDamaged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*workspace.Workspace)
		drops  bool
	}{
		"whole":     {func(*workspace.Workspace) {}, true},
		"damaged":   {func(w *workspace.Workspace) { w.ArchiveDamage = "torn" }, false},
		"suspected": {func(w *workspace.Workspace) { w.ArchiveSuspected = true }, false},
	} {
		w, o := unchangedAt()
		w.ArchiveKey, w.HomeCtx.RestoreMarker = id.ArchiveKey("op"), id.ArchiveKey("op")
		o.Jobs[0] = workspace.Job{Kind: workspace.JobArchive, OpID: "op", State: workspace.JobSucceeded, Size: 7}
		c.change(&w)
		d := planner.Reconcile(now, w, o, false, policy())
		if drops := d.Action == planner.ActDropArchivedVolume; drops != c.drops {
			t.Errorf("%s: %q", name, d.Action)
		}
		if !c.drops && (d.Next.Waiting == nil || d.Next.Waiting.Reason != workspace.WaitArchiveFailed || !d.Next.Conditions.True(workspace.VolumeReady)) {
			t.Errorf("%s: %+v", name, d.Next.Waiting)
		}
	}
}
