package workspace_test

import (
	"errors"
	"fmt"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// home is the content of a volume or an archive: the number of the last write,
// and whether a restore into it was cut short.
type home struct {
	version int
	torn    bool
}

// world is a model of everything outside the controller, for one workspace. It
// does what the actuators' contracts promise and no more, and it remembers what
// the owner last wrote, so that a test can say whether it can still be had.
type world struct {
	now       time.Time
	row       workspace.Workspace
	container *workspace.Container
	volume    *home
	jobs      []workspace.Job
	archives  map[string]home
	written   int // the last version that the owner wrote
	retryAt   time.Time
	serial    int
	deleted   bool
}

func newWorld() *world {
	w := &world{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), archives: map[string]home{}}
	w.row = workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", Phase: workspace.PhasePending, Operation: workspace.OpNone,
		DesiredState: workspace.DesiredRunning, PhaseChangedAt: w.now,
	}
	return w
}

func (w *world) policy() workspace.Policy {
	return workspace.Policy{
		Timeouts: workspace.DefaultTimeouts(), MaxRetry: 3, StableAfter: time.Minute,
		NewOpID: func() string { w.serial++; return fmt.Sprintf("op-%d", w.serial) },
	}
}

func (w *world) observe() workspace.Observation {
	o := workspace.Observation{Volume: w.volume != nil, Jobs: append([]workspace.Job(nil), w.jobs...)}
	if w.container != nil {
		k := *w.container
		o.Container = &k
	}
	presence := func(key string) workspace.Presence {
		if _, ok := w.archives[key]; ok {
			return workspace.Present
		}
		return workspace.Absent
	}
	archive, upload := workspace.Needs(w.row, o)
	if archive {
		o.Archive = presence(w.row.ArchiveKey)
	}
	if upload {
		o.Upload = presence(w.row.ID.ArchiveKey(w.row.ArchiveOpID))
	}
	if archive || upload {
		o.UploadSize = 1
	}
	return o
}

// look is one look of the controller up to the save; the action is for the
// caller to carry out, to fail, or to forget in a crash.
func (w *world) look() (workspace.Decision, workspace.Workspace) {
	was := w.row
	d := workspace.Reconcile(w.now, was, w.observe(), w.now.Before(w.retryAt), w.policy())
	w.save(d.Next)
	return d, was
}

func (w *world) save(next workspace.Workspace) {
	if next.ErrorCount > w.row.ErrorCount {
		w.retryAt = w.now.Add(time.Second)
	}
	w.row = next
}

// fail is an actuator's error arriving at the controller.
func (w *world) fail(a workspace.Action, reason workspace.ErrorReason) {
	if w.row.Operation == workspace.OpNone {
		return
	}
	d := workspace.Failed(w.now, w.row, workspace.Fail(reason, errors.New(string(a)+" refused")), w.policy())
	w.save(d.Next)
}

// act is an actuator that keeps its contract.
func (w *world) act(t *rapid.T, a workspace.Action) {
	switch a {
	case workspace.ActProvision:
		if w.volume == nil {
			w.volume = &home{}
		}
	case workspace.ActStart:
		if w.volume == nil {
			w.fail(a, workspace.ReasonContainerWithoutVolume)
			return
		}
		if w.runningJob() != nil {
			t.Fatalf("a container is started while a job runs: %+v", w.row)
		}
		if w.volume.torn {
			t.Fatalf("a container is started on a half-restored volume: %+v", w.row)
		}
		if w.container == nil || !w.container.Running {
			w.container = &workspace.Container{Running: true, Ready: true, Volume: true, Endpoint: "10.0.0.1:8080", StartedAt: w.now}
		}
	case workspace.ActDeleteContainer:
		w.container = nil
	case workspace.ActStartArchive:
		w.startJob(t, workspace.JobArchive, w.row.ArchiveOpID)
	case workspace.ActStartRestore:
		w.startJob(t, workspace.JobRestore, w.row.HomeCtx.RestoreOpID)
	case workspace.ActCreateEmptyArchive:
		w.archives[w.row.ID.ArchiveKey(w.row.ArchiveOpID)] = home{}
	case workspace.ActDropArchivedVolume:
		kept, ok := w.archives[w.row.ArchiveKey]
		if !ok || w.volume != nil && kept != *w.volume {
			t.Fatalf("a volume is deleted whose content is in no archive: volume %+v, archive %+v (%v)", w.volume, kept, ok)
		}
		w.jobs, w.volume = nil, nil
	case workspace.ActDeleteVolume:
		if !w.row.Deleted() {
			t.Fatalf("the volume of a workspace that nobody deleted is deleted: %+v", w.row)
		}
		w.jobs, w.volume = nil, nil
	case workspace.ActDeleteJobs:
		w.jobs = nil
	}
}

func (w *world) startJob(t *rapid.T, kind workspace.JobKind, op string) {
	if w.volume == nil || w.container != nil {
		w.fail(workspace.Action(kind), workspace.ReasonActionFailed)
		return
	}
	for _, j := range w.jobs {
		if j.Kind == kind && j.OpID == op {
			return
		}
	}
	if w.runningJob() != nil {
		t.Fatalf("two jobs at once: %+v and %s %s", w.jobs, kind, op)
	}
	if kind == workspace.JobArchive && w.volume.torn {
		t.Fatalf("a half-restored volume is archived: %+v", w.row)
	}
	w.jobs = append(w.jobs, workspace.Job{Kind: kind, OpID: op, State: workspace.JobRunning})
}

func (w *world) runningJob() *workspace.Job {
	for i := range w.jobs {
		if w.jobs[i].State == workspace.JobRunning {
			return &w.jobs[i]
		}
	}
	return nil
}

// endJob lets the running job end. A restore that fails leaves the volume torn.
func (w *world) endJob(ok bool) {
	j := w.runningJob()
	if j == nil || w.volume == nil {
		return
	}
	switch {
	case j.Kind == workspace.JobArchive && ok:
		key := w.row.ID.ArchiveKey(j.OpID)
		if _, there := w.archives[key]; !there { // both objects exist: nothing is uploaded
			w.archives[key] = *w.volume
		}
	case j.Kind == workspace.JobRestore && ok:
		kept, there := w.archives[w.row.ArchiveKey]
		if !there {
			j.State, j.Reason = workspace.JobFailed, workspace.ReasonDataLost
			return
		}
		*w.volume = kept
	case j.Kind == workspace.JobRestore:
		w.volume.torn = true
	}
	j.State, j.Size = workspace.JobSucceeded, 1
	if !ok {
		j.State, j.Reason, j.Message = workspace.JobFailed, workspace.ReasonActionFailed, "cut short"
	}
}

// write is the owner at work.
func (w *world) write() {
	if w.container != nil && w.container.Running && w.volume != nil {
		w.written++
		w.volume.version = w.written
	}
}

// crash ends the container by itself.
func (w *world) crash() {
	if w.container != nil && w.container.Running {
		w.container.Running, w.container.Ready = false, false
		w.container.ExitCode, w.container.FinishedAt = 1, w.now
	}
}

// kept reports whether what the owner wrote last can still be had in the way the
// controller would go about it.
func (w *world) kept() bool {
	if w.written == 0 {
		return true
	}
	if w.volume != nil && !w.volume.torn && w.volume.version == w.written {
		return true
	}
	a, ok := w.archives[w.row.ArchiveKey]
	return ok && a.version == w.written
}
