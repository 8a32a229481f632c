// Package problem is how programs see an error: application/problem+json (RFC 9457).
//
// It owns the kinds of problem that the gateway and the API share, and the mapping of the coordinator's errors to these
// kinds. It must not know what a request is for, and keeps no state.
package problem

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
)

// Problem is an error as programs see it: application/problem+json (RFC 9457). Its
// type is stable and is what programs should compare.
type Problem struct {
	// Type is a URN; Title explains it in a few words and is the same for all problems of a type.
	Type  string `json:"type"`
	Title string `json:"title"`
	// Status is the HTTP status.
	Status int `json:"status"`
	// Detail explains this occurrence to a person.
	Detail string `json:"detail,omitempty"`
	// Help is the title and the detail in every language, because a page can switch its language later. For a wrong
	// field it is only the detail, which says more. Only clients that ask for a language get it.
	Help words.Text `json:"help,omitempty"`
	// Field names what is wrong in the request.
	Field string `json:"field,omitempty"`
	// Recovery holds the possible choices, for [Choice].
	*Recovery
	// Names are the possible values of the field, if there is a list of them.
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

	title, detail words.Text
	challenge     string // the header WWW-Authenticate
}

// The kinds of problem, by the last part of their type.
var (
	BadRequest  = New("bad-request", http.StatusBadRequest)
	Invalid     = New("invalid-field", http.StatusBadRequest)
	Credentials = New("bad-credentials", http.StatusUnauthorized)
	NoSession   = New("not-signed-in", http.StatusUnauthorized)
	BadToken    = New("invalid-token", http.StatusUnauthorized)
	NoPasswords = New("passwords-off", http.StatusForbidden)
	Forbidden   = New("forbidden", http.StatusForbidden)
	TokenScope  = New("token-scope", http.StatusForbidden)
	CrossSite   = New("cross-site", http.StatusForbidden)
	NotFound    = New("not-found", http.StatusNotFound)
	Method      = New("method-not-allowed", http.StatusMethodNotAllowed)
	Busy        = New("operation-in-progress", http.StatusConflict)
	Choice      = New("choice-needed", http.StatusConflict)
	NotAwake    = New("not-awake", http.StatusConflict)
	NotRunning  = New("not-running", http.StatusConflict)
	Archive     = New("archive-not-restorable", http.StatusConflict)
	Deleted     = New("deleted", http.StatusConflict)
	KeyTaken    = New("key-taken", http.StatusConflict)
	UserExists  = New("user-exists", http.StatusConflict)
	OwnAccount  = New("own-account", http.StatusConflict)
	LastAdmin   = New("last-administrator", http.StatusConflict)
	Collected   = New("collected", http.StatusGone)
	Stale       = New("changed-meanwhile", http.StatusPreconditionFailed)
	NoEntityTag = New("no-entity-tag", http.StatusPreconditionFailed)
	TooLarge    = New("too-large", http.StatusRequestEntityTooLarge)
	MediaType   = New("unsupported-media-type", http.StatusUnsupportedMediaType)
	TooEarly    = New("too-early", http.StatusTooEarly)
	Upgrade     = New("upgrade-needed", http.StatusUpgradeRequired)
	Limit       = New("limit-reached", http.StatusTooManyRequests)
	Throttled   = New("too-many-attempts", http.StatusTooManyRequests)
	TooMany     = New("too-many-workspaces", http.StatusTooManyRequests)
	Tokens      = New("too-many-tokens", http.StatusTooManyRequests)
	Streams     = New("too-many-streams", http.StatusTooManyRequests)
	Commands    = New("too-many-commands", http.StatusTooManyRequests)
	Internal    = New("internal", http.StatusInternalServerError)
	Unknown     = New("files-unknown", http.StatusServiceUnavailable)
	Misdirected = New("misdirected", http.StatusMisdirectedRequest)
	Unavailable = New("unavailable", http.StatusServiceUnavailable)
	CommandLost = New("command-lost", http.StatusServiceUnavailable)
	Engine      = New("engine-away", http.StatusServiceUnavailable)
	Outdated    = New("outdated", http.StatusServiceUnavailable)
)

// New returns a problem type with a stable name and a status. The name is also the key of the title, below
// problem.title in package words.
func New(slug string, status int) Problem {
	title := words.Of("problem.title."+slug, nil)
	return Problem{Type: "urn:codehub:problem:" + slug, Title: title.String(), Status: status, title: title}
}

// With returns a copy with a detail: the text of package words with that key.
func (p Problem) With(key string, values words.Values) *Problem {
	return p.Because(words.Of(key, values))
}

// Because is [Problem.With] for a text that is there already.
func (p Problem) Because(detail words.Text) *Problem {
	p.Detail, p.detail = detail.String(), detail
	return &p
}

// InvalidField is [Invalid] for one field of the request, which the text names as {{.Field}}.
func InvalidField(field, key string, values words.Values) *Problem {
	said := words.Values{"Field": field}
	maps.Copy(said, values)
	p := Invalid.With(key, said)
	p.Field = field
	return p
}

// invalid is [InvalidField] for a value that breaks a rule of the coordinator. A field whose label on the pages differs
// from its name in the API is called by that label, in the reader's language.
func invalid(field string, rule words.Text) *Problem {
	name := words.Same(field)
	if key := "problem.field." + field + "_label"; words.Has(key) {
		name = words.Of(key, nil)
	}
	p := Invalid.With("problem.invalid", words.Values{"Field": name, "Problem": rule})
	p.Field = field
	return p
}

// In returns the problem in a language.
func (p Problem) In(language string) *Problem {
	p.Title, p.Detail = p.title.In(language), p.detail.In(language)
	return &p
}

// Challenge returns the problem with that header WWW-Authenticate.
func (p Problem) Challenge(challenge string) *Problem {
	p.challenge = challenge
	return &p
}

// SetHeaders sets the headers of an answer with the problem, which are the same for pages and JSON.
func (p *Problem) SetHeaders(h http.Header) {
	if p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", RetryUnavailable)
	}
	if p.RetryAfter != 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	} else if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", site.BearerChallenge)
	}
}

// Texts returns the title and the detail, for a page.
func (p *Problem) Texts() (title, detail words.Text) { return p.title, p.detail }

// Error lets a problem travel as an error.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return p.Cause.Error()
	}
	return p.Title + ": " + p.Detail
}

// Unwrap returns what caused the problem.
func (p *Problem) Unwrap() error { return p.Cause }

// RetryUnavailable is the Retry-After for a temporarily unavailable service, in seconds.
const RetryUnavailable = "5"

// Write sends the problem as the response, in the language for which the request asks. Status 503 gets
// [RetryUnavailable].
func (p *Problem) Write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Length")
	p.SetHeaders(h)
	said := p.In(site.Language(r))
	if site.ChosenLanguage(r) != "" || r.Header.Get("Accept-Language") != "" {
		said.Help = p.help()
	}
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(said) // the client has gone
}

// help is the text that a page shows.
func (p *Problem) help() words.Text {
	if p.Field == "" || p.detail.Empty() {
		return words.Join(p.title, ". ", p.detail)
	}
	return p.detail.Sentence()
}

// Of turns errors of packages service and auth into problems, and the error of a process that is too old, too. If
// PostgreSQL refused a statement of this program, the problem has the status 500; for any other error it has 503.
// Neither problem shows the error, which stays available as Cause.
func Of(err error) *Problem {
	var p *Problem
	var limit *service.LimitError
	var wrong *service.InvalidError
	var badUser *auth.InvalidError
	var choice *service.ChoiceError
	var revert *service.RevertError
	var throttled *auth.ThrottledError
	var image *service.ImageError
	var tooMany *service.TooManyError
	var older *postgres.OlderError
	var scope *auth.ScopeError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &limit):
		return OfLimit(limit, nil)
	case errors.As(err, &older):
		return Outdated.Because(words.Join(older.Text(), ".", nil))
	case errors.As(err, &tooMany):
		p := TooMany.With("problem.limit_workspaces", words.Values{"Limit": tooMany.Limit})
		p.Limit = tooMany.Limit
		return p
	case errors.As(err, &image):
		p := Invalid.Because(image.Text())
		p.Field, p.Names = "image_ref", image.Names
		return p
	case errors.As(err, &wrong):
		return invalid(wrong.Field, wrong.Problem)
	case errors.As(err, &badUser):
		return invalid(badUser.Field, badUser.Problem)
	case errors.Is(err, service.ErrNotFound), errors.Is(err, auth.ErrNoWorkspace):
		return NotFound.With("problem.no_workspace", nil)
	case errors.Is(err, service.ErrOperationInProgress):
		return Busy.With("problem.busy", nil)
	case errors.Is(err, service.ErrStale):
		return Stale.With("problem.changed_meanwhile", nil)
	case errors.Is(err, service.ErrKeyTaken):
		return KeyTaken.With("problem.key_taken", nil)
	case errors.Is(err, service.ErrNotAwake):
		return NotAwake.With("problem.not_awake", nil)
	case errors.Is(err, service.ErrDeleted):
		return Deleted.With("problem.deleted", nil)
	case errors.As(err, &revert):
		return Archive.Because(revert.Problem)
	case errors.Is(err, service.ErrArchivesUnknown):
		p := Unknown.With("problem.archives_unknown", nil)
		p.Cause = err
		return p
	case errors.As(err, &choice):
		p := Choice.Because(choice.Problem)
		p.Recovery = RecoveryOf(choice)
		return p
	case errors.Is(err, service.ErrInventoryUnknown):
		// The problem shows the error, because only administrators get this far, and the error says which server does
		// not answer.
		p := Unknown.With("problem.files_unknown", words.Values{
			"Cause": strings.TrimPrefix(err.Error(), service.ErrInventoryUnknown.Error()+": ")})
		p.Cause = err
		return p
	case errors.Is(err, service.ErrCollected):
		return Collected.With("problem.collected", nil)
	case errors.Is(err, service.ErrForbidden):
		return Forbidden.With("problem.ask_administrator", nil)
	case errors.Is(err, auth.ErrBadCredentials):
		return Credentials.With("problem.credentials", nil)
	case errors.As(err, &throttled):
		seconds := int(math.Ceil(throttled.RetryAfter.Seconds()))
		p := Throttled.With("problem.throttled", words.Values{"Seconds": seconds})
		p.RetryAfter = seconds
		return p
	case errors.Is(err, auth.ErrBadToken):
		p := BadToken.With("problem.token", nil)
		p.challenge = `Bearer error="invalid_token"`
		return p
	case errors.As(err, &scope):
		return ofScope(scope.Needs)
	case errors.Is(err, auth.ErrPeopleOnly):
		return ofScope(auth.NoScope)
	case errors.Is(err, auth.ErrTooManyTokens):
		p := Tokens.With("problem.limit_tokens", words.Values{"Limit": auth.MaxTokens})
		p.Limit = auth.MaxTokens
		return p
	case errors.Is(err, auth.ErrNoUser):
		return NotFound.With("problem.no_user", nil)
	case errors.Is(err, auth.ErrUserExists):
		p := UserExists.With("problem.user_exists", nil)
		p.Field = "username"
		return p
	case errors.Is(err, auth.ErrOwnAccount):
		return OwnAccount.With("problem.own_account", nil)
	case errors.Is(err, auth.ErrLastAdministrator):
		return LastAdmin.With("problem.last_administrator", nil)
	case errors.Is(err, auth.ErrNoToken):
		return NotFound.With("problem.no_token", nil)
	case errors.Is(err, auth.ErrNoSession):
		return NoSession.With("problem.sign_in", nil)
	}
	p = Unavailable.With("problem.try_again", nil)
	if postgres.IsWrongStatement(err) {
		p = Internal.With("problem.see_log", nil)
	}
	p.Cause = err
	return p
}

// ofScope is the problem of an access token without the scope that a request needs.
func ofScope(needs auth.Scope) *Problem {
	if needs == auth.NoScope {
		return TokenScope.With("problem.no_token_may", nil)
	}
	p := TokenScope.With("problem.token_scope", words.Values{"Scope": needs})
	p.challenge = `Bearer error="insufficient_scope", scope="` + string(needs) + `"`
	return p
}

// OfLimit is the problem of a limit that is reached; running are the user's own
// workspaces that count against it.
func OfLimit(limit *service.LimitError, running []RunningWorkspace) *Problem {
	key := "problem.limit_user"
	if limit.Scope == "global" {
		key = "problem.limit_global"
	}
	p := Limit.With(key, words.Values{"Limit": limit.Limit})
	p.Scope, p.Limit, p.Running = limit.Scope, limit.Limit, running
	return p
}
