package oidc

import (
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/words"
)

// Why a sign-in fails, as far as people are told.
var (
	errAttempt  = errors.New("the sign-in was not begun in this browser, or too long ago")
	errDenied   = errors.New("the identity provider refused the sign-in")
	errProvider = errors.New("the identity provider cannot be used")
	errGroup    = errors.New("none of the user's groups may sign in")
)

// failure is the page for an error.
type failure struct {
	err    error
	status int
	key    string
}

// failures are the errors that have a page of their own, with the keys of the pages' texts. The first entry that
// matches an error applies; the last entry matches every error.
var failures = []failure{
	{errAttempt, http.StatusBadRequest, "sign_in.attempt"},
	{errDenied, http.StatusForbidden, "sign_in.denied"},
	{errGroup, http.StatusForbidden, "sign_in.group"},
	{auth.ErrUnknownUser, http.StatusForbidden, "sign_in.unknown_user"},
	{auth.ErrNoSubject, http.StatusBadGateway, "sign_in.no_name"},
	{auth.ErrDisabled, http.StatusForbidden, "sign_in.disabled"},
	{errProvider, http.StatusBadGateway, "sign_in.provider"},
	{nil, http.StatusServiceUnavailable, "sign_in.failed"},
}

// Failures returns the errors that have a page of their own, and one error that stands for all others.
func Failures() []error {
	errs := make([]error, len(failures))
	for i, f := range failures {
		if errs[i] = f.err; f.err == nil {
			errs[i] = errors.New("something else")
		}
	}
	return errs
}

// fail shows why a sign-in failed, and logs what an administrator must know.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	if failureOf(err).status >= http.StatusInternalServerError && r.Context().Err() == nil {
		h.Log.Error("signing in through the identity provider failed", zap.Error(err))
	}
	if err := ShowFailure(w, r, err); err != nil {
		h.Log.Warn("showing a failed sign-in", zap.Error(err))
	}
}

// failureOf returns the page for an error.
func failureOf(err error) failure {
	for _, known := range failures {
		if known.err != nil && errors.Is(err, known.err) {
			return known
		}
	}
	return failures[len(failures)-1]
}

// ShowFailure shows why a sign-in failed. An error means that nothing was sent.
func ShowFailure(w http.ResponseWriter, r *http.Request, err error) error {
	f := failureOf(err)
	m := &web.Message{
		Heading: words.Of("sign_in.title", nil),
		Text:    words.Of(f.key, nil),
		Links: []web.Link{
			{URL: startPath + "?return=" + url.QueryEscape("/"), Text: words.Of("page.try_again", nil)},
			{URL: "/login", Text: words.Of("sign_in.home", nil)},
		},
	}
	return web.Messages.Show(w, r, f.status, web.Page{Title: m.Heading, Content: "message.html", Data: m})
}
