package preview

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// liveLimit is how many workspaces may run on a board that can be changed.
const liveLimit = 2

// liveRows are the initial workspaces of such a board.
func liveRows() []workspace.Workspace {
	return numbered(rowOf("thesis", workspace.PhaseRunning), rowOf("notes", workspace.PhaseStandby),
		rowOf("course", workspace.PhaseArchived))
}

// liveDozingRows are the initial workspaces of a board with the maximum number of running ones, and another one that
// dozes.
func liveDozingRows() []workspace.Workspace {
	return numbered(rowOf("thesis", workspace.PhaseRunning), rowOf("notes", workspace.PhaseRunning),
		rowOf("idle", workspace.PhaseRunning, dozes))
}

// changed returns a channel that is closed at the next change.
func (b *board) changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changes
}

// change answers a change as the API does, but without intermediate steps: a workspace immediately reaches the
// requested state.
func (b *board) change(w http.ResponseWriter, r *http.Request, path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	id, verb, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	row := b.find(id)
	switch {
	case id == "":
		b.create(w, r)
	case verb == "undelete":
		b.undelete(w, r, id)
	case row == nil && r.URL.Query().Has("now"):
		b.deleted = slices.DeleteFunc(b.deleted, func(w workspace.Workspace) bool { return string(w.ID) == id })
		b.tell()
		w.WriteHeader(http.StatusAccepted)
	case row == nil:
		problem.Of(service.ErrNotFound).Write(w, r)
	case r.Method == http.MethodPatch:
		b.patch(w, r, row)
	case r.Method == http.MethodDelete:
		row.DeletedAt = time.Now()
		b.deleted = append(b.deleted, *row)
		b.rows = slices.DeleteFunc(b.rows, func(w workspace.Workspace) bool { return string(w.ID) == id })
		b.tell()
		w.WriteHeader(http.StatusAccepted)
	default:
		b.do(w, r, row, verb)
	}
}

// tell wakes the event streams.
func (b *board) tell() {
	close(b.changes)
	b.changes = make(chan struct{})
}

// full refuses the request and reports true if no more workspaces may run.
func (b *board) full(w http.ResponseWriter, r *http.Request) bool {
	running := slices.DeleteFunc(slices.Clone(b.rows), func(w workspace.Workspace) bool { return w.Phase != workspace.PhaseRunning || w.Dozes() })
	if len(running) < liveLimit {
		return false
	}
	limit := &service.LimitError{Scope: "user", Limit: liveLimit}
	problem.OfLimit(limit, problem.RunningList(running, func(workspace.ID) string { return wakePath })).Write(w, r)
	return true
}

// create creates a workspace. A repeated request with the same key returns the same workspace.
func (b *board) create(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Name, Description string
		ImageRef          string `json:"image_ref"`
		GitURL            string `json:"git_url"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || b.full(w, r) {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	at := slices.IndexFunc(b.rows, func(w workspace.Workspace) bool { return key != "" && w.Memo == key })
	if at < 0 {
		made := rowOf(in.Name, workspace.PhaseRunning, func(w *workspace.Workspace) {
			w.ID, w.CreatedAt, w.Description, w.Memo = id(2000+len(b.rows)+len(b.deleted)), time.Now(), in.Description, key
			w.ImageRef, w.GitURL = in.ImageRef, in.GitURL
			w.LastAccessAt, w.Home = time.Time{}, workspace.HomeSize{MeasuredAt: time.Now()}
		})
		at, b.rows = len(b.rows), append(b.rows, made)
		b.tell()
	}
	b.send(w, http.StatusCreated, b.rows[at])
}

// patch changes the fields that a person edits.
func (b *board) patch(w http.ResponseWriter, r *http.Request, row *workspace.Workspace) {
	if match := r.Header.Get("If-Match"); match != "" && match != tagOf(*row) {
		problem.Of(service.ErrStale).Write(w, r)
		return
	}
	var in struct {
		Name, Description *string
		Favourite         *bool
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		return
	}
	if in.Name != nil {
		row.Name = *in.Name
	}
	if in.Description != nil {
		row.Description = *in.Description
	}
	if in.Favourite != nil {
		row.Favourite = *in.Favourite
	}
	b.done(w, row)
}

// do carries out one of the verbs.
func (b *board) do(w http.ResponseWriter, r *http.Request, row *workspace.Workspace, verb string) {
	switch verb {
	case "start":
		if b.full(w, r) {
			return
		}
		row.Phase = workspace.PhaseRunning
	case "sleep":
		row.Phase = workspace.PhaseStandby
	case "archive":
		row.Phase = workspace.PhaseArchived
	case "keep-awake":
		row.KeepAwakeUntil = time.Now().Add(time.Hour)
	default:
		problem.Of(service.ErrOperationInProgress).Write(w, r)
		return
	}
	row.DesiredState, row.DozeAt = workspace.DesiredState(row.Phase), time.Time{}
	b.done(w, row)
}

// undelete restores a deleted workspace.
func (b *board) undelete(w http.ResponseWriter, r *http.Request, id string) {
	at := slices.IndexFunc(b.deleted, func(w workspace.Workspace) bool { return string(w.ID) == id })
	if at < 0 {
		problem.Of(service.ErrNotFound).Write(w, r)
		return
	}
	row := b.deleted[at]
	row.DeletedAt = time.Time{}
	b.deleted = slices.Delete(b.deleted, at, at+1)
	b.rows = append(b.rows, row)
	b.done(w, &b.rows[len(b.rows)-1])
}

// done answers with a changed workspace.
func (b *board) done(w http.ResponseWriter, row *workspace.Workspace) {
	row.UpdatedAt = time.Now()
	b.tell()
	b.send(w, http.StatusOK, *row)
}

// tagOf returns the entity tag of a workspace.
func tagOf(w workspace.Workspace) string {
	return strconv.Quote(strconv.FormatInt(w.UpdatedAt.UnixNano(), 10))
}

// send answers with a workspace.
func (b *board) send(w http.ResponseWriter, status int, row workspace.Workspace) {
	w.Header().Set("ETag", tagOf(row))
	sendJSON(w, status, b.body(row))
}
