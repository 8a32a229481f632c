package preview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// name is the name of the workspace on the gateway's pages.
const name = "notebooks"

// wake is a workspace that wakes up.
type wake struct {
	phase workspace.Phase
	op    workspace.Operation
	// from is the phase in which the wake-up began; empty for the current one.
	from     workspace.Phase
	room     string
	age      time.Duration
	waiting  *workspace.Waiting
	progress *workspace.JobProgress
	reason   workspace.ErrorReason
}

// state returns the workspace as the route table has it.
func (k wake) state() *route.State {
	desired := workspace.DesiredRunning
	if k.room != "" {
		desired = workspace.DesiredStandby
	}
	return &route.State{Route: store.Route{
		Name: name, Phase: k.phase, Operation: k.op, Desired: desired,
		Waiting: k.waiting, Progress: k.progress, ErrorReason: k.reason,
	}}
}

// status returns the workspace as the wake page shows it.
func (k wake) status() progress.Status {
	began := time.Now().Add(-k.age)
	p := &activator.WakeProgress{Began: began, From: k.phase, During: k.op, StepBegan: began, Room: k.room}
	if k.from != "" {
		p.From, p.During = k.from, workspace.OpNone
	}
	return progress.Of(k.state(), p, nil)
}

// wakePage returns the wake page of k.
func wakePage(named string, k wake) *entry {
	e := &entry{Group: "wake", Name: named, status: k.status, Covers: []string{"stage " + string(k.status().Stage)}}
	if k.waiting != nil {
		e.Covers = append(e.Covers, "wait "+k.waiting.Reason)
	}
	e.show = func(w http.ResponseWriter, r *http.Request) error {
		page := &pages.Wake{ID: string(id(0)), Name: name, StatusURL: e.Path() + "/status", Home: "/", Back: "/", WakeURL: wakePath, Status: k.status()}
		return pages.ShowWake(w, r, page)
	}
	return e
}

// startOf maps an operation to the phase in which it begins. An operation that is missing here begins in STANDBY.
var startOf = map[workspace.Operation]workspace.Phase{
	workspace.OpCreateEmptyArchive: workspace.PhasePending, workspace.OpProvisioning: workspace.PhasePending,
	workspace.OpRestoring: workspace.PhaseArchived, workspace.OpStopping: workspace.PhaseRunning,
}

// wakePages returns the wake page in every stage, and in every stage when it takes longer than usual. It also returns
// the page with every step of a storage job, and with every reason for waiting.
func wakePages(c states) (list []*entry) {
	seen := make(map[string]bool)
	add := func(k wake) {
		shown, stage := fmt.Sprintf("%s %+v", k.room, k.status().Steps), string(k.status().Stage)
		if !seen[shown] {
			list = append(list, wakePage(stage+"-from-"+strings.ToLower(string(cmp.Or(k.from, k.phase))), k))
		}
		if k.age = time.Hour; !seen[stage] {
			list = append(list, wakePage("late-"+stage, k))
		}
		seen[shown], seen[stage] = true, true
	}
	for _, op := range c.operations {
		k := wake{phase: cmp.Or(startOf[op], workspace.PhaseStandby), op: op}
		if op != workspace.OpStopping && op != workspace.OpArchiving { // those began before the wake-up
			k.from = k.phase
		}
		if op != workspace.OpDeleting && op != workspace.OpNone {
			add(k)
		}
	}
	for _, from := range c.phases {
		for _, phase := range c.phases {
			if from.Level() >= 0 && from.Level() <= phase.Level() {
				add(wake{from: from, phase: phase, op: workspace.OpNone})
			}
		}
	}
	add(wake{phase: workspace.PhaseStandby, op: workspace.OpNone, room: "notes"})
	for _, s := range jobSteps(c) {
		for i, p := range progresses(s.step) {
			list = append(list, wakePage(fmt.Sprintf("job-%s-%d", s.step, i),
				wake{phase: s.from, op: s.op, progress: p}))
		}
	}
	starting := wake{phase: workspace.PhaseStandby, op: workspace.OpStarting}
	waiting := func(named string, w *workspace.Waiting) {
		k := starting
		k.waiting = w
		list = append(list, wakePage("waiting-"+named, k))
	}
	for _, reason := range append(slices.Clone(c.waits), unknownReason) {
		waiting(reason, waitingFor(reason))
		// The same without figures, if the page then says something else.
		least := &workspace.Waiting{Reason: reason}
		if explainedBy(least) != explainedBy(waitingFor(reason)) {
			waiting(reason+"-without-figures", least)
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// explainedBy returns the wake page's text about a wait.
func explainedBy(w *workspace.Waiting) string {
	return fmt.Sprint(wake{phase: workspace.PhaseStandby, op: workspace.OpStarting, waiting: w}.status().Steps)
}

// unknownReason is a reason that only a later release knows.
const unknownReason = "OfALaterRelease"

// waitingFor returns a wait for a reason, with all fields set.
func waitingFor(reason string) *workspace.Waiting {
	return &workspace.Waiting{
		Reason: reason, Message: "what the server said, for administrators", Since: time.Now().Add(-4 * time.Minute),
		Before: 3, Done: 120e6, Total: 540e6, Percent: 96, Count: 2, Subject: "notes.db",
	}
}

// progresses returns the progress that a storage job reports in a step, with all fields set and with none.
func progresses(step string) []*workspace.JobProgress {
	now := time.Now()
	return []*workspace.JobProgress{
		{Step: step, Bytes: 63e6, Files: 1200, Done: 63e6, Total: 100e6, Rate: 1e6, At: now},
		{Step: step, At: now},
	}
}

// failedPages returns, for each reason, the page of a failed workspace, and the wake page of a workspace that fails
// while the page is open.
func failedPages(c states) (list []*entry) {
	for _, reason := range append(slices.Clone(c.reasons), unknownReason) {
		st := wake{phase: workspace.PhaseError, op: workspace.OpNone, reason: reason}.state()
		list = append(list, &entry{
			Group: "failed", Name: string(reason),
			Covers: []string{"stage " + string(progress.StageFailed), "error " + string(reason)},
			show: func(w http.ResponseWriter, r *http.Request) error {
				return pages.ShowFailed(w, r, progress.FailureOf(st), string(id(0)), "/")
			},
		})
		while := wakePage("meanwhile-"+string(reason), wake{phase: workspace.PhaseStandby, op: workspace.OpStarting})
		while.Group, while.status = "failed", func() progress.Status { return progress.Of(st, nil, nil) }
		list = append(list, while)
	}
	return list
}

// status answers a poll by a page's script. If the script already has the state, status answers only after the time for
// which the script waits for a change.
func (p *Preview) status(w http.ResponseWriter, r *http.Request) {
	e := p.find(w, r)
	if e == nil {
		return
	}
	s := e.status()
	if r.URL.Query().Get("seen") == s.Tag {
		hold(r)
	}
	sendJSON(w, http.StatusOK, s)
}

// hold waits until the poll has waited long enough or the page is closed.
func hold(r *http.Request) {
	timer := time.NewTimer(pollTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
}

// pollTime is how long a poll waits, as the pages request it.
const pollTime = 25 * time.Second

func sendJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only when the client has disconnected
}
