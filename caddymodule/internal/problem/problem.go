// Package problem is how programs see an error: application/problem+json (RFC 9457).
//
// It owns the kinds of problem that the gateway and the API share, and which kind an error of the
// coordinator is. It must not know what a request is for, and keeps no state.
package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Problem is an error as programs see it: application/problem+json (RFC 9457). Its
// type is stable and is what programs should compare.
type Problem struct {
	// Type is a URN; Title explains it in a few words and never varies.
	Type  string `json:"type"`
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail explains this occurrence to a person.
	Detail string `json:"detail,omitempty"`
	// Field names what is wrong in the request.
	Field string `json:"field,omitempty"`
	// Recovery is what can be chosen, for [Choice].
	*Recovery
	// Names are what the field may be, where that is a list.
	Names []string `json:"names,omitempty"`
	// Scope ("user" or "global") and Limit say which limit was reached.
	Scope string `json:"scope,omitempty"`
	Limit int    `json:"limit,omitempty"`
	// RetryAfter, in seconds, is when the request may succeed.
	RetryAfter int `json:"retry_after,omitempty"`
	// Running are the user's own workspaces that count against the limit: putting one to
	// sleep makes room.
	Running []RunningWorkspace `json:"running,omitempty"`

	// Cause is logged and never sent.
	Cause error `json:"-"`
}

// The kinds of problem, by the last part of their type.
var (
	BadRequest  = New("bad-request", "The request cannot be understood", 400)
	Invalid     = New("invalid-field", "A value is not acceptable", 400)
	Credentials = New("bad-credentials", "Wrong user name or password", 401)
	NoSession   = New("not-signed-in", "Not signed in", 401)
	NoPasswords = New("passwords-off", "Signing in with a password is switched off", 403)
	Forbidden   = New("forbidden", "Administrators only", 403)
	CrossSite   = New("cross-site", "The request comes from another site", 403)
	NotFound    = New("not-found", "Not found", 404)
	Method      = New("method-not-allowed", "This method is not offered here", 405)
	Busy        = New("operation-in-progress", "An operation is in progress", 409)
	Choice      = New("choice-needed", "Recovering needs a choice", 409)
	NotAwake    = New("not-awake", "The workspace is not awake", 409)
	Archive     = New("archive-not-restorable", "This archive cannot be restored", 409)
	Deleted     = New("deleted", "The workspace is deleted", 409)
	Collected   = New("collected", "The archives are being deleted", 410)
	TooLarge    = New("too-large", "The request is too large", 413)
	MediaType   = New("unsupported-media-type", "The body must be JSON", 415)
	Limit       = New("limit-reached", "The limit of running workspaces is reached", 429)
	Throttled   = New("too-many-attempts", "Too many attempts to sign in", 429)
	TooMany     = New("too-many-workspaces", "The limit of workspaces is reached", 429)
	Streams     = New("too-many-streams", "Too many event streams are open", 429)
	Internal    = New("internal", "Something went wrong on the server", 500)
	Unknown     = New("files-unknown", "It is not known which files exist", 503)
	Misdirected = New("misdirected", "People do not sign in at this host", 421)
	Unavailable = New("unavailable", "The service is not available at the moment", 503)
	Outdated    = New("outdated", "This server is too old for its database", 503)
)

// New returns a problem type: its stable name, its title for people and its
// status.
func New(slug, title string, status int) Problem {
	return Problem{Type: "urn:codehub:problem:" + slug, Title: title, Status: status}
}

// With returns a copy with a detail for people, formatted as by [fmt.Sprintf].
func (p Problem) With(format string, args ...any) *Problem {
	p.Detail = fmt.Sprintf(format, args...)
	return &p
}

// Error lets a problem travel as an error.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return p.Cause.Error()
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns what caused the problem.
func (p *Problem) Unwrap() error { return p.Cause }

// RetryUnavailable is the Retry-After of what is not available at the moment, in seconds.
const RetryUnavailable = "5"

// Write sends the problem as the response. Status 503 gets [RetryUnavailable].
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Length")
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", RetryUnavailable)
	}
	if p.RetryAfter != 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p) // the client has gone
}

// Of translates errors of packages service and auth, and that of a process that is too
// old, into problems. Any other error becomes 503, or 500 when PostgreSQL refused a statement
// of this program; neither shows the error, which stays available as Cause.
func Of(err error) *Problem {
	var p *Problem
	var limit *service.LimitError
	var invalid *service.InvalidError
	var badUser *auth.InvalidError
	var choice *service.ChoiceError
	var revert *service.RevertError
	var throttled *auth.ThrottledError
	var image *service.ImageError
	var tooMany *service.TooManyError
	var older *postgres.OlderError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &limit):
		return OfLimit(limit, nil)
	case errors.As(err, &older):
		return Outdated.With("%s.", older)
	case errors.As(err, &tooMany):
		p := TooMany.With("You may have at most %d workspaces; delete one first.", tooMany.Limit)
		p.Limit = tooMany.Limit
		return p
	case errors.As(err, &image):
		p := Invalid.With("%s.", image)
		p.Field, p.Names = "image_ref", image.Names
		return p
	case errors.As(err, &invalid):
		p := Invalid.With("%s %s", invalid.Field, invalid.Problem)
		p.Field = invalid.Field
		return p
	case errors.As(err, &badUser):
		p := Invalid.With("%s %s", badUser.Field, badUser.Problem)
		p.Field = badUser.Field
		return p
	case errors.Is(err, service.ErrNotFound), errors.Is(err, auth.ErrNoWorkspace):
		return NotFound.With("No workspace of yours has this id.")
	case errors.Is(err, service.ErrOperationInProgress):
		return Busy.With("Wait until the running operation has ended, then ask again.")
	case errors.Is(err, service.ErrNotAwake):
		return NotAwake.With("Open the workspace first, and then keep it awake.")
	case errors.Is(err, service.ErrDeleted):
		return Deleted.With("Undelete the workspace first, and then recover it with a choice.")
	case errors.As(err, &revert):
		return Archive.With("%s%s.", strings.ToUpper(revert.Problem[:1]), revert.Problem[1:])
	case errors.Is(err, service.ErrArchivesUnknown):
		p := Unknown.With("The archives cannot be looked at now; nothing was changed. Try again in a few minutes.")
		p.Cause = err
		return p
	case errors.As(err, &choice):
		p := Choice.With("%s", choice.Problem)
		p.Recovery = RecoveryOf(choice)
		return p
	case errors.Is(err, service.ErrInventoryUnknown):
		// Only administrators get this far, and the error says what does not answer.
		p := Unknown.With("%s", err)
		p.Cause = err
		return p
	case errors.Is(err, service.ErrCollected):
		return Collected.With("The deletion can no longer be undone.")
	case errors.Is(err, service.ErrForbidden):
		return Forbidden.With("Ask an administrator to do this.")
	case errors.Is(err, auth.ErrBadCredentials):
		return Credentials.With("Check the user name and the password.")
	case errors.As(err, &throttled):
		p := Throttled.With("Try again in %d seconds.", int(math.Ceil(throttled.RetryAfter.Seconds())))
		p.RetryAfter = int(math.Ceil(throttled.RetryAfter.Seconds()))
		return p
	case errors.Is(err, auth.ErrNoSession):
		return NoSession.With("Sign in at /login or with POST /api/v1/auth/login.")
	}
	p = Unavailable.With("Try again in a moment.")
	if postgres.IsWrongStatement(err) {
		p = Internal.With("See the log of the server.")
	}
	p.Cause = err
	return p
}

// OfLimit is the problem of a limit that is reached; running are the user's own
// workspaces that count against it.
func OfLimit(limit *service.LimitError, running []RunningWorkspace) *Problem {
	p := Limit.With("At most %d workspaces may run at a time; put one to sleep first.", limit.Limit)
	if limit.Scope == "global" {
		p = Limit.With("This server runs at most %d workspaces at a time, "+
			"and that many are running; try again later.", limit.Limit)
	}
	p.Scope, p.Limit, p.Running = limit.Scope, limit.Limit, running
	return p
}
