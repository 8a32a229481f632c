package api

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/web"
)

// guard refuses requests that a page of another origin makes, and those at a host where
// nobody signs in: a page of an attacker's host name that leads here (DNS rebinding) is
// of that origin itself. It deletes the cookies that pages of workspaces may have planted
// to lock the user out.
func (h *Handler) guard(w http.ResponseWriter, r *http.Request) error {
	switch {
	case !h.Site.IsMain(r):
		return web.ProblemMisdirected.With("Use %s instead, or name this host in the setting public_url.", h.Site.MainOrigin(r))
	case h.Site.CrossOrigin(r):
		return web.ProblemCrossSite.With("A page of another origin may open this address in a window, and must not use it otherwise.")
	}
	if _, err := h.Site.Token(r, web.SessionCookie); err != nil {
		h.Site.ExpireCopies(w, r, web.SessionCookie)
	}
	return nil
}

// guarded is a page behind [Handler.guard], in a process that may serve.
func (h *Handler) guarded(show page) page {
	return func(w http.ResponseWriter, r *http.Request) error {
		if older := h.Refused(); older != nil {
			return web.ShowOutdated(w, r, older, "/")
		}
		if err := h.guard(w, r); err != nil {
			if p := web.ProblemOf(err); p.Status == http.StatusMisdirectedRequest {
				return h.pages.ShowMisdirected(w, r, h.Site.MainOrigin(r))
			}
			return err
		}
		h.Site.ClearPlanted(w, r, "/") // this page itself takes as many
		return show(w, r)
	}
}
