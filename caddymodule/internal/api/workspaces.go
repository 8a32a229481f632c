package api

import (
	"net/http"
	"strconv"
	"strings"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// createWorkspace is POST /workspaces: it creates a workspace of the user, whose desired_state is
// RUNNING by default, and answers 201 with it. It refuses an invalid field with 400, and a
// workspace beyond the limits with 429. A repetition with the same Idempotency-Key answers with the
// workspace that the first request created.
func (c *call) createWorkspace() error {
	var in struct {
		Name         textField `json:"name"`
		Description  textField `json:"description"`
		Memo         textField `json:"memo"`
		ImageRef     textField `json:"image_ref"`
		GitURL       textField `json:"git_url"`
		DesiredState textField `json:"desired_state"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	key, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	w, err := c.Service.Create(c.r.Context(), c.actor(), service.CreateInput{
		Name: in.Name.text, Description: in.Description.text, Memo: in.Memo.text, ImageRef: in.ImageRef.text,
		GitURL: in.GitURL.text, DesiredState: workspace.DesiredState(in.DesiredState.text), Key: key,
	})
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/api/v1/workspaces/"+string(w.ID))
	return c.sendWorkspaceAs(http.StatusCreated, w)
}

// sendWorkspace answers with what the service has returned.
func (c *call) sendWorkspace(w workspace.Workspace, err error) error {
	if err != nil {
		return err
	}
	return c.sendWorkspaceAs(http.StatusOK, w)
}

// sendWorkspaceAs answers with a workspace and its revision as the entity tag.
func (c *call) sendWorkspaceAs(status int, w workspace.Workspace) error {
	c.w.Header().Set("ETag", entityTag(w.Revision))
	return sendJSON(c.w, status, c.body(w))
}

// listWorkspaces is GET /workspaces?limit&cursor&sort&phase&q&deleted&all&owner: one page of the
// user's workspaces, newest first by default, and the cursor of the next page, null on the last one.
// With deleted=true it lists deleted workspaces that can still be undeleted. With all=true, for
// administrators, it lists the workspaces of all users or of one owner, with the owners' names. The
// package service owns the sizes of pages, the orders and the filters.
func (c *call) listWorkspaces() error {
	limit, err := c.number("limit", service.MaxPage)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	o := service.ListOptions{Owner: q.Get("owner"), Text: q.Get("q"), Sort: q.Get("sort")}
	if o.Deleted, err = c.flag("deleted"); err != nil {
		return err
	}
	if o.All, err = c.flag("all"); err != nil {
		return err
	}
	for _, p := range strings.Split(q.Get("phase"), ",") {
		if p != "" {
			o.Phases = append(o.Phases, workspace.Phase(p))
		}
	}
	items, next, err := c.Service.List(c.r.Context(), c.actor(), o, int(limit), q.Get("cursor"))
	if err != nil {
		return err
	}
	body := func(w store.Listed) v1.Workspace {
		out := c.body(w.Workspace)
		if o.Deleted {
			out.KeptBytes = &w.Kept
		}
		return out
	}
	if o.All {
		return sendPage(c, items, next, func(w store.Listed) v1.OwnedWorkspace {
			return v1.OwnedWorkspace{Workspace: body(w), Owner: w.Owner}
		})
	}
	return sendPage(c, items, next, body)
}

// sendPage answers with a page of a list.
func sendPage[T, B any](c *call, items []T, next string, body func(T) B) error {
	bodies := make([]B, len(items))
	for i, item := range items {
		bodies[i] = body(item)
	}
	return sendJSON(c.w, http.StatusOK, v1.PageOf(bodies, next))
}

// body returns w in the form for the client of this call.
func (c *call) body(w workspace.Workspace) v1.Workspace { return v1.WorkspaceOf(w, c.view(w.ID)) }

// view returns how the client of this call sees a workspace.
func (c *call) view(id workspace.ID) v1.View {
	d := c.Service.Delays()
	v := v1.View{
		Admin: c.user.Admin(), HomeWarn: d.HomeWarn, Standby: d.Standby, DeletionDelay: c.DeletionDelay,
	}
	if !c.local { // a command has no address from which the workspace's could be derived
		v.URL = c.at.WorkspaceURL(id)
	}
	return v
}

// getWorkspace is GET /workspaces/{id}. Unknown, deleted and other users' workspaces
// get the same 404; administrators see all.
func (c *call) getWorkspace() error {
	return c.sendWorkspace(c.Service.Get(c.r.Context(), c.actor(), c.id))
}

// patchWorkspace is PATCH /workspaces/{id}: it changes the given fields, all or none, and answers with the workspace. A
// change of the image applies from the next start, and retries a workspace in ERROR if its image may be the cause.
// Changing the desired state is refused with 409 while an operation is in progress (SPEC 1, contract 4), and with 429
// beyond the limits, as in createWorkspace. With If-Match it is refused with 412 if the workspace has changed since.
func (c *call) patchWorkspace() error {
	var in struct {
		Name         textField `json:"name"`
		Description  textField `json:"description"`
		Memo         textField `json:"memo"`
		ImageRef     textField `json:"image_ref"`
		DesiredState textField `json:"desired_state"`
		Favourite    *bool     `json:"favourite"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	patch := service.Patch{
		Favourite: in.Favourite,
		Name:      in.Name.pointer(), Description: in.Description.pointer(),
		Memo: in.Memo.pointer(), ImageRef: in.ImageRef.pointer(),
	}
	if in.DesiredState.given {
		desired := workspace.DesiredState(in.DesiredState.text)
		patch.DesiredState = &desired
	}
	return c.update(patch)
}

// update changes the workspace and answers with it.
func (c *call) update(patch service.Patch) error {
	return c.sendWorkspace(c.Service.Update(c.r.Context(), c.actor(), c.id, patch))
}

// setDesired is POST /workspaces/{id}/start, …/sleep or …/archive: PATCH with that desired state
// and nothing else. It takes no body.
func setDesired(desired workspace.DesiredState) func(*call) error {
	return func(c *call) error { return c.update(service.Patch{DesiredState: &desired}) }
}

// deleteWorkspace is DELETE /workspaces/{id}?now. It answers 202, because container and volume are
// removed in the background. The workspace is no longer found, but can be undeleted for a while.
// With now=true nothing is kept for that time; this is allowed for administrators, and for the
// owner of a workspace that is already deleted.
func (c *call) deleteWorkspace() error {
	now, err := c.flag("now")
	if err != nil {
		return err
	}
	if err := c.Service.Delete(c.r.Context(), c.actor(), c.id, now); err != nil {
		return err
	}
	return c.sendNothing(http.StatusAccepted)
}

// undeleteWorkspace is POST /workspaces/{id}/undelete: it undoes the deletion of a
// workspace, as long as its files exist, and answers with it.
func (c *call) undeleteWorkspace() error {
	return c.sendWorkspace(c.Service.Undelete(c.r.Context(), c.actor(), c.id))
}

// flag reads a boolean parameter of the query. It is false when it is missing.
func (c *call) flag(name string) (bool, error) {
	switch c.r.URL.Query().Get(name) {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	}
	return false, problem.InvalidField(name, "problem.boolean", nil)
}

// number reads a parameter of the query that is a number from 1 to limit. It returns 0 when it is
// missing.
func (c *call) number(name string, limit int64) (int64, error) {
	s := c.r.URL.Query().Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > limit {
		return 0, problem.InvalidField(name, "problem.number", words.Values{"Max": limit})
	}
	return n, nil
}
