package planner_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// home is the content of a volume or an archive: the number of the last write, and whether a restore into it
// was interrupted.
type home struct {
	version int
	torn    bool
}

// state is a job's fingerprint of the volume.
func (d *disk) state() string { return fmt.Sprint(d.opID, "/", d.version) }

// disk is a volume: its content and the engine's report about it.
type disk struct {
	home
	opID string
	made time.Time
}

// stored is an archive; made gives the order of the archives.
type stored struct {
	home
	made    int
	damaged bool
}

// engine is one container engine. A wrong address leads to another one.
type engine struct {
	container *workspace.Container
	volume    *disk
	jobs      []workspace.Job
}

// harness is a model of everything outside the controller, for one workspace. Its actuators do what their
// contracts promise and no more. It remembers the owner's last write, so that a test can check whether that
// still exists.
type harness struct {
	now      time.Time
	row      workspace.Workspace
	history  []workspace.Workspace // the earlier rows, for restoring an older database
	*engine                        // the one that answers
	engines  [2]*engine
	archives map[string]stored
	store    workspace.StoreAnswer
	unseen   workspace.Sensors
	keeps    keeps
	volumeID string // the volume to delete, according to the decision
	written  int    // the owner's newest version that was not given up
	serial   int
	made     int
	retryAt  time.Time
	recovery int
	reverts  int
	given    map[string]string // the states that archive jobs were given to compare with
	wayBack  home              // the home that the last revert has replaced
	begun    time.Time         // when this leader has begun the operation in progress
	deleted  bool
	dropped  bool // a deletion gave the volume up
	noBackup bool // no older database is restored any more
	forGood  bool // the delay has passed, or an administrator gave the files up
}

// questions returns the questions of a decision when a retry is due and the object store has not answered anything yet.
func questions(now time.Time, w workspace.Workspace, o workspace.Observation) planner.Ask {
	o.Archive, o.Upload, o.Store = workspace.Unknown, workspace.Unknown, workspace.StoreAnswer{}
	return planner.Reconcile(now, w, o, false, policy()).Ask
}

// failed returns the decision after an actuator's error, which is part of the next observation.
func failed(now time.Time, w workspace.Workspace, err error, p planner.Policy) planner.Decision {
	return planner.Reconcile(now, w, workspace.Observation{ActionError: err}, false, p)
}

func newHarness() *harness {
	h := &harness{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), archives: map[string]stored{}, given: map[string]string{},
		engines: [2]*engine{{}, {}}, store: answers}
	h.engine = h.engines[0]
	h.row = workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhasePending, Operation: workspace.OpNone,
		DesiredState: workspace.DesiredRunning, PhaseChangedAt: h.now, CreatedAt: h.now,
	}
	return h
}

func (h *harness) policy() planner.Policy {
	p := policy()
	p.NewOpID = func() string { h.serial++; return fmt.Sprintf("op-%d", h.serial) }
	return p
}

func (h *harness) observe(asked bool) workspace.Observation {
	o := workspace.Observation{Jobs: slices.Clone(h.jobs), Unseen: h.unseen,
		Witnessed: h.row.Operation != workspace.OpNone && h.begun.Equal(h.row.OpStartedAt)}
	if h.volume != nil {
		o.Volume = &workspace.Volume{OpID: h.volume.opID, CreatedAt: h.volume.made, Unknown: h.keeps.doubt}
	}
	if h.container != nil {
		k := *h.container
		o.Container = &k
	}
	presence := func(key string) workspace.Presence {
		if h.store.State != workspace.StoreAnswers {
			return workspace.Unknown
		}
		if _, ok := h.archives[key]; ok {
			return workspace.Present
		}
		return workspace.Absent
	}
	ask := questions(h.now, h.row, o)
	archive, upload := ask.Archive, ask.Upload
	if archive {
		o.Archive = presence(h.row.ArchiveKey)
	}
	if upload {
		o.Upload = presence(h.row.ID.ArchiveKey(h.row.ArchiveOpID))
	}
	if archive || upload {
		o.UploadSize = 1
		o.UploadSHA256 = h.row.ArchiveKey
		if upload {
			o.UploadSHA256 = h.row.ID.ArchiveKey(h.row.ArchiveOpID)
		}
	}
	if asked && h.row.Revert != nil {
		o.Chosen = presence(h.row.Revert.Key)
	}
	if archive || upload || asked {
		o.Store = h.store
	}
	if asked && h.store.State == workspace.StoreAnswers {
		newest := -1
		for _, known := range []string{h.row.ArchiveKey, h.row.HomeCtx.Newest} {
			if a, there := h.archives[known]; there {
				newest = max(newest, a.made)
			}
		}
		for key, a := range h.archives {
			if a.made > newest && key != h.row.ID.ArchiveKey(h.row.ArchiveOpID) {
				o.Younger, newest = key, a.made
			}
		}
	}
	return o
}

// reconcile observes, decides and saves. The caller carries the action out, lets it fail, or drops it as a
// crash would.
func (h *harness) reconcile() (planner.Decision, workspace.Workspace) {
	was := h.row
	decide := func(asked bool) planner.Decision {
		return planner.Reconcile(h.now, was, h.observe(asked), h.now.Before(h.retryAt), h.policy())
	}
	d := decide(false)
	if !d.Ask.None() {
		d = decide(true)
	}
	if !d.Ask.None() {
		panic(fmt.Sprintf("all was answered, and it asks %+v again", d.Ask))
	}
	h.save(d)
	return d, was
}

func (h *harness) save(d planner.Decision) {
	if d.Next.ErrorCount > h.row.ErrorCount {
		h.retryAt = h.now.Add(time.Second)
	}
	if d.Retry > 0 {
		h.retryAt = h.now.Add(d.Retry)
	}
	if d.Changed {
		h.history = append(h.history, h.row)
	}
	switch {
	case d.Next.Operation == workspace.OpNone:
		h.begun = time.Time{}
	case h.row.Operation == workspace.OpNone:
		h.begun = d.Next.OpStartedAt
	}
	switch {
	case d.Archived != nil && d.Archived.Verified:
		d.Next.ArchiveDamage = ""
	case d.Next.ArchiveKey != h.row.ArchiveKey:
		d.Next.ArchiveDamage = ""
		if h.archives[d.Next.ArchiveKey].damaged {
			d.Next.ArchiveDamage = "damaged"
		}
	}
	if d.Next.Phase != h.row.Phase || d.Next.Operation != h.row.Operation {
		d.Next.DozeAt = time.Time{} // as a trigger does
	}
	h.row, h.volumeID = d.Next, d.VolumeOpID
}

// fail reports an actuator's error to the controller.
func (h *harness) fail(a planner.Action, reason workspace.ErrorReason) {
	if h.row.Operation == workspace.OpNone {
		return
	}
	h.save(failed(h.now, h.row, workspace.Fail(reason, errors.New(string(a)+" refused")), h.policy()))
}

// act carries the action out as its contract says.
func (h *harness) act(t failing, a planner.Action) {
	switch a {
	case planner.ActProvision:
		switch {
		case h.volume == nil:
			h.volume = &disk{opID: h.row.HomeCtx.VolumeOpID, made: h.now}
		case h.volume.opID != h.row.HomeCtx.VolumeOpID:
			h.fail(a, workspace.ReasonConflict)
		}
	case planner.ActStart:
		if h.volume == nil {
			h.fail(a, workspace.ReasonContainerWithoutVolume)
			return
		}
		if h.runningJob() != nil {
			t.Fatalf("a container is started while a job runs: %+v", h.row)
		}
		if h.volume.torn {
			t.Fatalf("a container is started on a half-restored volume: %+v", h.row)
		}
		if h.container == nil || !h.container.Running {
			if h.keeps.quota {
				h.mustWait(a, workspace.WaitQuota)
				return
			}
			h.container = &workspace.Container{Running: true, Volume: true, Health: workspace.HealthStarting, Pending: h.keeps.start}
			h.comesUp()
		}
	case planner.ActDeleteContainer:
		h.deleteContainer()
	case planner.ActStartArchive:
		if _, known := h.given[h.row.ArchiveOpID]; !known {
			h.given[h.row.ArchiveOpID] = h.row.KnownState()
		}
		h.startJob(t, workspace.JobArchive, h.row.ArchiveOpID)
	case planner.ActStartRestore:
		h.startJob(t, workspace.JobRestore, h.row.HomeCtx.RestoreOpID)
	case planner.ActCreateEmptyArchive:
		if h.store.State != workspace.StoreAnswers {
			h.fail(a, workspace.ReasonUnreachable)
			return
		}
		h.upload(h.row.ID.ArchiveKey(h.row.ArchiveOpID), home{})
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume:
		kept, ok := h.archives[h.row.ArchiveKey]
		if !ok || h.store.State != workspace.StoreAnswers {
			h.fail(a, workspace.ReasonActionFailed) // the final check of the archive fails
			return
		}
		if a == planner.ActDropArchivedVolume && h.volume != nil && h.volume.opID == h.volumeID && (kept.home != h.volume.home || kept.damaged) {
			t.Fatalf("the deleted volume's content is in no archive: volume %+v, archive %+v (%v)", h.volume, kept, ok)
		}
		h.deleteVolume()
	case planner.ActDeleteVolume:
		h.dropped = h.deleted
		h.deleteVolume()
	case planner.ActDeleteJobs:
		h.deleteJobs()
	case planner.ActFreeze:
		if k := h.container; k != nil && k.Running && k.StartedAt.Equal(h.row.HomeCtx.Dozed) {
			k.Health, k.Ready = workspace.HealthPaused, false
		}
	case planner.ActThaw:
		if k := h.container; k != nil && k.Health == workspace.HealthPaused {
			k.Health, k.Ready = "", true
		}
	}
}

// frozen reports whether the container is frozen, and by this program.
func (h *harness) frozen() bool {
	k := h.container
	return k != nil && k.Health == workspace.HealthPaused && k.StartedAt.Equal(h.row.HomeCtx.Dozed)
}

// deleteVolume deletes exactly the incarnation named by the decision.
func (h *harness) deleteVolume() {
	h.deleteJobs()
	if h.runningJob() == nil && h.volume != nil && h.volume.opID == h.volumeID && h.container == nil {
		h.volume = nil
	}
}

func (h *harness) upload(key string, content home) {
	if _, there := h.archives[key]; !there { // an existing archive is not uploaded again
		h.made++
		h.archives[key] = stored{home: content, made: h.made}
	}
}

func (h *harness) startJob(t failing, kind workspace.JobKind, op string) {
	if h.volume == nil || h.container != nil {
		h.fail(planner.Action(kind), workspace.ReasonActionFailed)
		return
	}
	for _, j := range h.jobs {
		if j.Kind == kind && j.OpID == op {
			return
		}
	}
	if h.runningJob() != nil {
		t.Fatalf("two jobs at once: %+v and %s %s", h.jobs, kind, op)
	}
	if kind == workspace.JobArchive && h.volume.torn {
		t.Fatalf("a half-restored volume is archived: %+v", h.row)
	}
	h.jobs = append(h.jobs, workspace.Job{Kind: kind, OpID: op, State: workspace.JobRunning, Pending: h.keeps.start})
}

func (h *harness) runningJob() *workspace.Job {
	for i := range h.jobs {
		if h.jobs[i].State == workspace.JobRunning {
			return &h.jobs[i]
		}
	}
	return nil
}

// endJob ends the running job. A restore that fails leaves the volume torn.
func (h *harness) endJob(ok bool) {
	j := h.runningJob()
	if j == nil || h.volume == nil || j.Pending != nil {
		return
	}
	if h.store.State != workspace.StoreAnswers {
		j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonUnreachable, "no route"
		return
	}
	switch {
	case j.Kind == workspace.JobArchive && ok && h.given[j.OpID] == h.volume.state():
		j.Unchanged = true
	case j.Kind == workspace.JobArchive && ok:
		h.upload(h.row.ID.ArchiveKey(j.OpID), h.volume.home)
	case j.Kind == workspace.JobRestore && ok:
		kept, there := h.archives[h.row.ArchiveKey]
		if !there {
			j.State, j.Reason = workspace.JobFailed, workspace.ReasonDataLost
			return
		}
		if kept.damaged {
			j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonArchiveCorrupted, "the checksum differs"
			return
		}
		h.volume.home = kept.home
	case j.Kind == workspace.JobRestore:
		h.volume.torn = true
	}
	j.State, j.Size, j.Fingerprint, j.SHA256 = workspace.JobSucceeded, 1, h.volume.state(), h.row.ArchiveKey
	if j.Kind == workspace.JobArchive && !j.Unchanged {
		j.SHA256 = h.row.ID.ArchiveKey(j.OpID)
	}
	if !ok {
		j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonActionFailed, "interrupted"
	}
}

// write stores the owner's next change on the volume.
func (h *harness) write() {
	if recovering(h.row) && h.row.Recovery.ReplaceVolume {
		return // the volume was given up
	}
	if h.container != nil && !h.container.StartedAt.IsZero() && h.container.Running && h.volume != nil &&
		h.container.Health != workspace.HealthPaused {
		h.serial++
		h.written = h.serial
		h.volume.version = h.written
	}
}

// crash lets the container exit by itself.
func (h *harness) crash() {
	if h.container != nil && h.container.Running && h.container.Pending == nil {
		h.container.Running, h.container.Ready, h.container.Health = false, false, ""
		h.container.ExitCode, h.container.FinishedAt = 1, h.now
	}
}

// kept reports whether the owner's last change is on a volume or in an archive. If the database was always right, an
// archive counts only if it is the current one or a younger one: the garbage collector deletes the others.
func (h *harness) kept(older bool) bool {
	if h.written == 0 {
		return true
	}
	for _, e := range h.engines {
		if e.volume != nil && !e.volume.torn && e.volume.version == h.written {
			return true
		}
	}
	current, known := h.archives[h.row.ArchiveKey]
	for _, a := range h.archives {
		if a.version == h.written && !a.damaged && (older || !known || a.made >= current.made) {
			return true
		}
	}
	return false
}

// revert requests an older archive, as the owner does. The service offers no archive that is known to be damaged, and
// accepts the request only for a workspace whose phase is one of the ordered phases.
func (h *harness) revert(key string) {
	if a, there := h.archives[key]; !there || a.damaged || h.row.Operation != workspace.OpNone || h.deleted ||
		h.row.Phase == workspace.PhaseError || h.row.ArchiveKey == "" || h.row.Reverting() {
		return
	}
	h.reverts++
	h.row.Revert = &workspace.Revert{ID: fmt.Sprint("revert-", h.reverts), Key: key, At: h.now}
	h.retryAt = time.Time{}
}

// spoil damages or removes the current archive, unless that loses the owner's last change. The scrub has
// reported the damage.
func (h *harness) spoil(remove bool) {
	a, there := h.archives[h.row.ArchiveKey]
	if !there || h.row.Reverting() && h.row.Revert.Key == h.row.ArchiveKey {
		return // the person who chose it has seen that it is intact
	}
	sound := a
	a.damaged = true
	h.archives[h.row.ArchiveKey] = a
	volume := h.volume
	if volume == nil || volume.torn || volume.version != h.written || !h.row.Conditions.True(workspace.VolumeReady) {
		h.archives[h.row.ArchiveKey] = sound
		return
	}
	if remove {
		delete(h.archives, h.row.ArchiveKey)
		return
	}
	h.row.ArchiveDamage = "damaged"
}
