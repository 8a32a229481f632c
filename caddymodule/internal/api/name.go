package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// name is GET /auth/name?host&return. It redirects a browser from the host {name}--{user} to the host of that user's
// workspace with that name. Only the owner is redirected. Other users and other names get the same 404.
func (h *Handler) name(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	ctx, cancel := context.WithTimeout(r.Context(), h.DatabaseTimeout)
	defer cancel()
	grant, err := h.sessionGrant(r, at)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		site.Redirect(w, site.LoginPath(r), http.StatusSeeOther)
		return nil
	case err != nil:
		return h.unavailable(w, r, err)
	}
	q := r.URL.Query()
	id, err := h.named(ctx, grant.User, q.Get("host"))
	switch {
	case err != nil:
		return h.unavailable(w, r, err)
	case id == "":
		return problem.Of(auth.ErrNoWorkspace)
	}
	site.Redirect(w, at.WorkspaceOrigin(id)+site.LocalPath(q.Get("return")), http.StatusTemporaryRedirect)
	return nil
}

// named returns the user's workspace with this alias, the oldest of several; "" if there is none.
func (h *Handler) named(ctx context.Context, user auth.User, alias string) (id workspace.ID, err error) {
	if alias == "" {
		return "", nil
	}
	for cursor := ""; ; {
		var items []store.Listed
		items, cursor, err = h.Service.List(ctx, service.Actor{UserID: user.ID, Through: audit.API}, service.ListOptions{},
			service.MaxPage, cursor)
		for _, w := range items { // newest first
			if site.Alias(w.Name, user.Username) == alias {
				id = w.ID
			}
		}
		if err != nil || cursor == "" {
			return id, err
		}
	}
}
