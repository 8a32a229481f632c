package simulate

import (
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// Course counts what the controller does to bring a workspace to another desired state if nothing fails.
type Course struct {
	// Saves is how often the workspace's row is written, and Told is how many of these writes notify the processes.
	Saves, Told int
	// Actions counts the calls of actuators, and Asks the questions to the object store.
	Actions map[planner.Action]int
	Asks    int
}

// Calls is how many calls of actuators there are.
func (c Course) Calls() (n int) {
	for _, times := range c.Actions {
		n += times
	}
	return n
}

// world is a workspace with everything that belongs to it.
type world struct {
	now       time.Time
	row       workspace.Workspace
	container *workspace.Container
	volume    *workspace.Volume
	jobs      []workspace.Job
	archives  map[string]bool
	serial    int
}

// newWorld returns a workspace that was just created.
func newWorld() *world {
	at := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	return &world{now: at, archives: map[string]bool{}, row: workspace.Workspace{
		ID: "00000000-0000-4000-8000-000000000001", OwnerID: "owner", Phase: workspace.PhasePending, Operation: workspace.OpNone,
		DesiredState: workspace.DesiredStandby, PhaseChangedAt: at, CreatedAt: at,
	}}
}

// Courses returns the courses of a day: from ARCHIVED to RUNNING, from STANDBY to RUNNING, from RUNNING to STANDBY, and
// from STANDBY to ARCHIVED.
func Courses() (restore, start, sleep, archive Course) {
	w := newWorld()
	w.drive(workspace.DesiredRunning)
	w.drive(workspace.DesiredStandby)
	archive = w.drive(workspace.DesiredArchived)
	restore = w.drive(workspace.DesiredRunning)
	sleep = w.drive(workspace.DesiredStandby)
	start = w.drive(workspace.DesiredRunning)
	return restore, start, sleep, archive
}

// drive lets the planner decide until the workspace is as desired. That takes a few decisions. If it takes many, the
// planner waits for something that this simulated world lacks.
func (w *world) drive(desired workspace.DesiredState) (c Course) {
	const many = 60
	c.Actions = map[planner.Action]int{}
	w.row.DesiredState = desired
	for range many {
		w.now = w.now.Add(time.Second)
		d := planner.Reconcile(w.now, w.row, w.observe(false), false, w.policy())
		if !d.Ask.None() {
			c.Asks++
			d = planner.Reconcile(w.now, w.row, w.observe(true), false, w.policy())
		}
		if d.Changed {
			c.Saves++
			if told(w.row, d.Next) {
				c.Told++
			}
		}
		done := !d.Changed && d.Action == planner.ActNothing && string(d.Next.Phase) == string(desired)
		if w.row = d.Next; done {
			return c
		}
		if d.Action != planner.ActNothing {
			c.Actions[d.Action]++
			w.act(d)
		} else if len(w.jobs) > 0 {
			w.endJobs()
		}
	}
	panic(fmt.Sprintf("the workspace does not become %s: %+v", desired, w.row))
}

// told reports whether the database's triggers notify the processes about a change.
func told(was, is workspace.Workspace) bool {
	return was.Phase != is.Phase || was.Operation != is.Operation || was.Endpoint != is.Endpoint || was.ErrorReason != is.ErrorReason
}

func (w *world) policy() planner.Policy {
	return planner.Policy{
		Timeouts: planner.DefaultTimeouts(), MaxRetry: 3, WaitLimit: 10 * time.Minute, KeepDeleted: 2 * time.Hour,
		NewOpID: func() string { w.serial++; return fmt.Sprintf("op-%d", w.serial) },
	}
}

// observe returns the sensors' observation, with the answers of the object store if it was asked.
func (w *world) observe(asked bool) workspace.Observation {
	o := workspace.Observation{Container: w.container, Volume: w.volume, Jobs: w.jobs, Witnessed: true}
	if !asked {
		return o
	}
	presence := func(key string) workspace.Presence {
		if w.archives[key] {
			return workspace.Present
		}
		return workspace.Absent
	}
	o.Store = workspace.StoreAnswer{State: workspace.StoreAnswers}
	o.Archive, o.Upload = presence(w.row.ArchiveKey), presence(w.row.ID.ArchiveKey(w.row.ArchiveOpID))
	o.UploadSize, o.UploadSHA256 = 1, "sum"
	return o
}

// act carries out an action according to its contract.
func (w *world) act(d planner.Decision) {
	switch d.Action {
	case planner.ActProvision:
		w.volume = &workspace.Volume{OpID: w.row.HomeCtx.VolumeOpID, CreatedAt: w.now}
	case planner.ActStart:
		w.container = &workspace.Container{Running: true, Ready: true, Endpoint: "10.0.0.1:8080", Volume: true, StartedAt: w.now}
	case planner.ActDeleteContainer:
		w.container = nil
	case planner.ActStartArchive:
		w.jobs = []workspace.Job{{Kind: workspace.JobArchive, OpID: w.row.ArchiveOpID, State: workspace.JobRunning}}
	case planner.ActStartRestore:
		w.jobs = []workspace.Job{{Kind: workspace.JobRestore, OpID: w.row.HomeCtx.RestoreOpID, State: workspace.JobRunning}}
	case planner.ActCreateEmptyArchive:
		w.archives[w.row.ID.ArchiveKey(w.row.ArchiveOpID)] = true
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume, planner.ActDeleteVolume:
		w.volume, w.jobs = nil, nil
	case planner.ActDeleteJobs:
		w.jobs = nil
	}
}

// endJobs lets the jobs that run succeed.
func (w *world) endJobs() {
	for i := range w.jobs {
		j := &w.jobs[i]
		if j.State != workspace.JobRunning {
			continue
		}
		j.State, j.Size, j.SHA256, j.Verified, j.Fingerprint = workspace.JobSucceeded, 1, "sum", true, fmt.Sprint("state ", w.serial)
		if j.Kind == workspace.JobArchive {
			w.archives[w.row.ID.ArchiveKey(j.OpID)] = true
		}
	}
}
