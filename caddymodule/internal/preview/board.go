package preview

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// board contains the API's answers to the script of a page.
type board struct {
	admin bool
	// rows are the user's workspaces. deleted are the user's deleted workspaces, which can be undeleted. others are
	// workspaces of other users that are in ERROR.
	rows, deleted, others []workspace.Workspace
	problems              []string
	// refuse is the answer to every change.
	refuse error
	// live means that the board accepts changes.
	live bool
	// lost means that the event stream does not answer.
	lost bool
	// expired means that the session has ended.
	expired bool

	mu       sync.Mutex
	revision int64 // of the last change

	made    sync.Once
	hub     *events.Hub
	handler *api.Handler
	failed  error // why there is no handler
}

// The user who looks at a board.
const (
	ownerID   = "owner"
	ownerName = "mina"
)

// longName is the name of a workspace that needs more room than others.
const longName = "a-name-that-is-as-long-as-people-make-them-아주-긴-이름도-있습니다"

// throttled is how long further sign-ins are refused.
const throttled = 42 * time.Second

// lastPart returns the stable name of a problem type.
func lastPart(problem string) string { return problem[strings.LastIndex(problem, ":")+1:] }

// id returns the id of the nth workspace.
func id(n int) workspace.ID { return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n+1)) }

// rowOf returns an idle workspace in a phase.
func rowOf(named string, phase workspace.Phase, change ...func(*workspace.Workspace)) workspace.Workspace {
	now := time.Now()
	w := workspace.Workspace{
		Name: named, Description: "What it is for", OwnerID: ownerID,
		InstanceBackend: "docker", StorageBackend: "docker",
		Phase: phase, PhaseChangedAt: now.Add(-time.Hour), Operation: workspace.OpNone,
		DesiredState: workspace.DesiredState(phase),
		LastAccessAt: now.Add(-50 * time.Minute), UpdatedAt: now, Conditions: workspace.Conditions{},
		Home: workspace.HomeSize{Bytes: 3_400_000_000, Files: 41_000, MeasuredAt: now.Add(-time.Hour)},
	}
	switch phase {
	case workspace.PhaseDeleting, workspace.PhaseDeleted:
		w.DesiredState = workspace.DesiredDeleted
	case workspace.PhaseError, workspace.PhasePending:
		w.DesiredState = workspace.DesiredRunning
	}
	for _, f := range change {
		f(&w)
	}
	return w
}

// numbered assigns ids to the rows, and times that put them into this order in the list.
func numbered(rows ...workspace.Workspace) []workspace.Workspace {
	now := time.Now()
	for i := range rows {
		rows[i].ID, rows[i].Revision, rows[i].CreatedAt = id(i), 1, now.Add(-time.Duration(i)*time.Hour)
	}
	return rows
}

// dashboardPages returns the dashboard with each of these boards.
func (p *Preview) dashboardPages(c states) (list []*entry) {
	add := func(named, hint string, b *board, d pages.Dashboard) {
		b.revision = 1 // as all rows
		d.ID, d.Username, d.Role = ownerID, ownerName, auth.RoleUser
		if b.admin {
			d.Role = auth.RoleAdmin
		}
		list = append(list, &entry{Group: "dashboard", Name: named, Hint: hint, board: b, Covers: b.covers(),
			show: func(w http.ResponseWriter, r *http.Request) error { return p.pages.ShowDashboard(w, r, d) }})
	}
	ours := pages.Dashboard{Sessions: true, Passwords: true, SignOut: true}
	waiting, failed := waitingRows(c), failedRows(c)
	add("empty", "", &board{}, ours)
	add("tour", "", &board{rows: tourRows()}, ours)
	add("phases", "", &board{rows: phaseRows(c)}, ours)
	add("operations", "", &board{rows: operationRows(c)}, ours)
	add("waiting", "", &board{rows: waiting}, ours)
	add("failed", "", &board{rows: failed}, ours)
	add("awake", "", &board{rows: awakeRows(c)}, ours)
	add("files", "Open the details of each.", &board{rows: fileRows()}, ours)
	add("deleted", "", &board{deleted: deletedRows()}, ours)
	add("administrator", "", &board{
		admin: true, rows: numbered(slices.Concat(phaseRows(c), waiting, failed)...),
		deleted: deletedRows(), others: failed[:len(failed)-1],
		problems: []string{
			"The container engine is not the one that was recorded.", "The object store refuses the key.",
		},
	}, ours)
	add("hundreds", "", &board{rows: manyRows(c)}, ours)
	add("live", "It takes changes, and forgets them when the preview ends.",
		&board{rows: liveRows(), live: true}, ours)
	add("live-dozing", "It takes changes, and forgets them when the preview ends.",
		&board{rows: liveDozingRows(), live: true}, ours)
	add("connection-lost", "", &board{lost: true}, ours)
	add("session-ended", "", &board{rows: phaseRows(c), expired: true}, ours)
	add("signed-in-elsewhere", "", &board{rows: phaseRows(c)}, pages.Dashboard{})
	for _, refusal := range refusals {
		b := &board{admin: true, rows: phaseRows(c), deleted: deletedRows(), refuse: refusal.err}
		add("refused-"+refusal.name, "Create, change, delete or recover one.", b, ours)
	}
	return list
}

// covers lists the constants that the rows show.
func (b *board) covers() (all []string) {
	for _, w := range b.rows {
		all = append(all, "phase "+string(w.Phase), "operation "+string(w.Operation),
			"row error "+string(w.ErrorReason))
		if w.Waiting != nil {
			all = append(all, "row wait "+w.Waiting.Reason)
		}
		if w.Busy != nil {
			all = append(all, "busy "+w.Busy.Reason)
		}
		if w.Progress != nil {
			all = append(all, "step "+w.Progress.Step)
		}
	}
	return all
}

// refusals are answers to changes.
var refusals = []struct {
	name string
	err  error
}{
	{"limit-of-the-user", &service.LimitError{Scope: "user", Limit: 2}},
	{"limit-of-the-installation", &service.LimitError{Scope: "global", Limit: 100}},
	{"too-many", &service.TooManyError{Limit: 100}},
	{"name", &service.InvalidError{Field: "name", Problem: words.Of("problem.rule.visible", nil)}},
	{"image", &service.ImageError{Names: []string{"default", "python"}}},
	{"busy", service.ErrOperationInProgress},
	{"unavailable", problem.Unavailable.With("problem.try_again", nil)},
	{"choice", choiceNeeded()},
}

// choiceNeeded is the error of a recovery that needs a choice by an administrator.
func choiceNeeded() *service.ChoiceError {
	now := time.Now()
	return &service.ChoiceError{
		Reason: workspace.ReasonConflict, Problem: words.Of("problem.recovery.in_doubt", nil),
		Choices: []service.Choice{
			{Kind: workspace.RecoverVolume}, {Kind: workspace.RecoverArchive, Key: "new", ReplaceVolume: true},
			{Kind: workspace.RecoverArchive, Key: "old", ReplaceVolume: true},
			{Kind: workspace.RecoverEmpty, ReplaceVolume: true},
		},
		Inventory: workspace.Inventory{
			Volume: &workspace.Volume{CreatedAt: now.Add(-50 * time.Hour)},
			Archives: []workspace.ArchiveVersion{
				{Key: "new", Size: 1_200_000_000, Modified: now.Add(-26 * time.Hour), Current: true},
				{Key: "old", Size: 900_000_000, Modified: now.Add(-90 * time.Hour)},
			},
		},
	}
}
