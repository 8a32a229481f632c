package codehub

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/service"
)

// problem is an error as programs see it: application/problem+json (RFC 9457). Its
// type is stable and is what programs should compare.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"`
	// Field names what is wrong in the request.
	Field string `json:"field,omitempty"`
	// Scope ("user" or "global") and Limit say which limit was reached.
	Scope string `json:"scope,omitempty"`
	Limit int    `json:"limit,omitempty"`

	cause error // logged, never sent
}

// The kinds of problem, by the last part of their type.
var (
	problemBadRequest  = kind("bad-request", "The request cannot be understood", 400)
	problemInvalid     = kind("invalid-field", "A value is not acceptable", 400)
	problemCredentials = kind("bad-credentials", "Wrong user name or password", 401)
	problemNoSession   = kind("not-signed-in", "Not signed in", 401)
	problemForbidden   = kind("forbidden", "Administrators only", 403)
	problemCrossSite   = kind("cross-site", "The request comes from another site", 403)
	problemNotFound    = kind("not-found", "There is no such thing", 404)
	problemMethod      = kind("method-not-allowed", "This method is not offered here", 405)
	problemBusy        = kind("operation-in-progress", "An operation is in progress", 409)
	problemTooLarge    = kind("too-large", "The request is too large", 413)
	problemMediaType   = kind("unsupported-media-type", "The body must be JSON", 415)
	problemLimit       = kind("limit-reached", "The limit of running workspaces is reached", 429)
	problemInternal    = kind("internal", "Something went wrong on the server", 500)
	problemUnavailable = kind("unavailable", "The service is not available at the moment", 503)
)

func kind(slug, title string, status int) problem {
	return problem{Type: "urn:codehub:problem:" + slug, Title: title, Status: status}
}

// with returns a copy with an explanation for people.
func (p problem) with(format string, args ...any) *problem {
	p.Detail = fmt.Sprintf(format, args...)
	return &p
}

// Error lets a problem travel as an error.
func (p *problem) Error() string {
	if p.cause != nil {
		return p.cause.Error()
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns what caused the problem.
func (p *problem) Unwrap() error { return p.cause }

// write sends the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Length")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "5")
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// problemOf translates the errors of the packages below.
func problemOf(err error) *problem {
	var p *problem
	var limit *service.LimitError
	var invalid *service.InvalidError
	var badUser *auth.InvalidError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &limit):
		p := problemLimit.with("At most %d workspaces may run at a time; put one to sleep first.", limit.Limit)
		if limit.Scope == "global" {
			p = problemLimit.with("All %d places of this server are taken; try again later.", limit.Limit)
		}
		p.Scope, p.Limit = limit.Scope, limit.Limit
		return p
	case errors.As(err, &invalid):
		p := problemInvalid.with("%s %s", invalid.Field, invalid.Problem)
		p.Field = invalid.Field
		return p
	case errors.As(err, &badUser):
		p := problemInvalid.with("%s %s", badUser.Field, badUser.Problem)
		p.Field = badUser.Field
		return p
	case errors.Is(err, service.ErrNotFound), errors.Is(err, auth.ErrNoWorkspace):
		return problemNotFound.with("No workspace of yours has this id.")
	case errors.Is(err, service.ErrOperationInProgress):
		return problemBusy.with("Wait until the running operation has ended, then ask again.")
	case errors.Is(err, service.ErrForbidden):
		return problemForbidden.with("Ask an administrator to do this.")
	case errors.Is(err, auth.ErrBadCredentials):
		return problemCredentials.with("Check the user name and the password.")
	case errors.Is(err, auth.ErrNoSession):
		return problemNoSession.with("Sign in at /login or with POST /api/v1/auth/login.")
	}
	p = problemUnavailable.with("Try again in a moment.")
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !passing(refused) {
		p = problemInternal.with("The server's log says more.")
	}
	p.cause = err
	return p
}

// passing reports whether the database refused because of its own state, such as
// starting up or having no room for a connection: then waiting helps.
func passing(refused *pgconn.PgError) bool {
	// Class 57 is operator intervention, class 53 insufficient resources.
	return strings.HasPrefix(refused.Code, "57") || strings.HasPrefix(refused.Code, "53")
}
