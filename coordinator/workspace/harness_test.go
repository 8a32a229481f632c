package workspace_test

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// home is the content of a volume or an archive: the number of the last write,
// and whether a restore into it was interrupted.
type home struct {
	version int
	torn    bool
}

// harness is a model of everything outside the controller, for one workspace. Its
// actuators do what their contracts promise and no more, and it remembers what the
// owner wrote last, so that a test can check whether that still exists.
type harness struct {
	now       time.Time
	row       workspace.Workspace
	container *workspace.Container
	volume    *home
	jobs      []workspace.Job
	archives  map[string]home
	written   int // the owner's last version
	retryAt   time.Time
	serial    int
	deleted   bool
}

func newHarness() *harness {
	h := &harness{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), archives: map[string]home{}}
	h.row = workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhasePending, Operation: workspace.OpNone,
		DesiredState: workspace.DesiredRunning, PhaseChangedAt: h.now,
	}
	return h
}

func (h *harness) policy() workspace.Policy {
	return workspace.Policy{
		Timeouts: workspace.DefaultTimeouts(), MaxRetry: 3, StableAfter: time.Minute,
		NewOpID: func() string { h.serial++; return fmt.Sprintf("op-%d", h.serial) },
	}
}

func (h *harness) observe() workspace.Observation {
	o := workspace.Observation{Volume: h.volume != nil, Jobs: append([]workspace.Job(nil), h.jobs...)}
	if h.container != nil {
		k := *h.container
		o.Container = &k
	}
	presence := func(key string) workspace.Presence {
		if _, ok := h.archives[key]; ok {
			return workspace.Present
		}
		return workspace.Absent
	}
	archive, upload := workspace.Needs(h.row, o)
	if archive {
		o.Archive = presence(h.row.ArchiveKey)
	}
	if upload {
		o.Upload = presence(h.row.ID.ArchiveKey(h.row.ArchiveOpID))
	}
	if archive || upload {
		o.UploadSize = 1
	}
	return o
}

// reconcile observes, decides and saves. The caller carries the action out, lets it
// fail, or drops it as a crash would.
func (h *harness) reconcile() (workspace.Decision, workspace.Workspace) {
	was := h.row
	d := workspace.Reconcile(h.now, was, h.observe(), h.now.Before(h.retryAt), h.policy())
	h.save(d.Next)
	return d, was
}

func (h *harness) save(next workspace.Workspace) {
	if next.ErrorCount > h.row.ErrorCount {
		h.retryAt = h.now.Add(time.Second)
	}
	h.row = next
}

// fail reports an actuator's error to the controller.
func (h *harness) fail(a workspace.Action, reason workspace.ErrorReason) {
	if h.row.Operation == workspace.OpNone {
		return
	}
	d := workspace.Failed(h.now, h.row, workspace.Fail(reason, errors.New(string(a)+" refused")), h.policy())
	h.save(d.Next)
}

// act carries the action out as its contract says.
func (h *harness) act(t *rapid.T, a workspace.Action) {
	switch a {
	case workspace.ActProvision:
		if h.volume == nil {
			h.volume = &home{}
		}
	case workspace.ActStart:
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
			h.container = &workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "10.0.0.1:8080", StartedAt: h.now}
		}
	case workspace.ActDeleteContainer:
		h.container = nil
	case workspace.ActStartArchive:
		h.startJob(t, workspace.JobArchive, h.row.ArchiveOpID)
	case workspace.ActStartRestore:
		h.startJob(t, workspace.JobRestore, h.row.HomeCtx.RestoreOpID)
	case workspace.ActCreateEmptyArchive:
		h.archives[h.row.ID.ArchiveKey(h.row.ArchiveOpID)] = home{}
	case workspace.ActDropArchivedVolume:
		kept, ok := h.archives[h.row.ArchiveKey]
		if !ok || h.volume != nil && kept != *h.volume {
			t.Fatalf("the deleted volume's content is in no archive: volume %+v, archive %+v (%v)", h.volume, kept, ok)
		}
		h.jobs, h.volume = nil, nil
	case workspace.ActDeleteVolume:
		if !h.row.Deleted() {
			t.Fatalf("a volume is deleted although its workspace is not: %+v", h.row)
		}
		h.jobs, h.volume = nil, nil
	case workspace.ActDeleteJobs:
		h.jobs = nil
	}
}

func (h *harness) startJob(t *rapid.T, kind workspace.JobKind, op string) {
	if h.volume == nil || h.container != nil {
		h.fail(workspace.Action(kind), workspace.ReasonActionFailed)
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
	h.jobs = append(h.jobs, workspace.Job{Kind: kind, OpID: op, State: workspace.JobRunning})
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
	if j == nil || h.volume == nil {
		return
	}
	switch {
	case j.Kind == workspace.JobArchive && ok:
		key := h.row.ID.ArchiveKey(j.OpID)
		if _, there := h.archives[key]; !there { // an existing archive is not uploaded again
			h.archives[key] = *h.volume
		}
	case j.Kind == workspace.JobRestore && ok:
		kept, there := h.archives[h.row.ArchiveKey]
		if !there {
			j.State, j.Reason = workspace.JobFailed, workspace.ReasonDataLost
			return
		}
		*h.volume = kept
	case j.Kind == workspace.JobRestore:
		h.volume.torn = true
	}
	j.State, j.Size = workspace.JobSucceeded, 1
	if !ok {
		j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonActionFailed, "interrupted"
	}
}

// write stores the owner's next change on the volume.
func (h *harness) write() {
	if h.container != nil && h.container.Running && h.volume != nil {
		h.written++
		h.volume.version = h.written
	}
}

// crash lets the container exit by itself.
func (h *harness) crash() {
	if h.container != nil && h.container.Running {
		h.container.Running, h.container.Ready = false, false
		h.container.ExitCode, h.container.FinishedAt = 1, h.now
	}
}

// kept reports whether the owner's last change is on the volume or in the archive
// that the controller would restore.
func (h *harness) kept() bool {
	if h.written == 0 {
		return true
	}
	if h.volume != nil && !h.volume.torn && h.volume.version == h.written {
		return true
	}
	a, ok := h.archives[h.row.ArchiveKey]
	return ok && a.version == h.written
}
