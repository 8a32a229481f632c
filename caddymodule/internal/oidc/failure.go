package oidc

import (
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
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
	text   explain.Text
}

// failures are the pages, first match first; the last one is for everything else.
var failures = []failure{
	{errAttempt, http.StatusBadRequest, explain.Text{
		En: "This sign-in was begun in another browser, or too long ago. Try again.",
		Ko: "다른 브라우저에서 시작했거나 시간이 너무 지난 로그인입니다. 다시 시도하세요."}},
	{errDenied, http.StatusForbidden, explain.Text{
		En: "The identity provider did not sign you in.",
		Ko: "인증 서버가 로그인을 허용하지 않았습니다."}},
	{errGroup, http.StatusForbidden, explain.Text{
		En: "You are known to the identity provider, but none of your groups may use CodeHub. Ask an administrator.",
		Ko: "인증은 되었지만 CodeHub를 사용할 수 있는 그룹에 속해 있지 않습니다. 관리자에게 문의하세요."}},
	{auth.ErrUnknownUser, http.StatusForbidden, explain.Text{
		En: "You are known to the identity provider, but have no account here. Ask an administrator.",
		Ko: "인증은 되었지만 여기에 계정이 없습니다. 관리자에게 문의하세요."}},
	{auth.ErrNobody, http.StatusBadGateway, explain.Text{
		En: "The identity provider did not say who you are. Tell an administrator.",
		Ko: "인증 서버가 사용자를 알려 주지 않았습니다. 관리자에게 문의하세요."}},
	{auth.ErrDisabled, http.StatusForbidden, explain.Text{
		En: "Your account is disabled. Ask an administrator.",
		Ko: "사용이 중지된 계정입니다. 관리자에게 문의하세요."}},
	{errProvider, http.StatusBadGateway, explain.Text{
		En: "The identity provider cannot be reached, or gave an answer that cannot be used. Try again in a moment.",
		Ko: "인증 서버에 연결할 수 없거나 올바른 응답을 받지 못했습니다. 잠시 뒤에 다시 시도하세요."}},
	{nil, http.StatusServiceUnavailable, explain.Text{
		En: "Signing in does not work at the moment. Try again shortly.",
		Ko: "지금은 로그인할 수 없습니다. 잠시 뒤에 다시 시도하세요."}},
}

//go:embed pages/failure.html
var pages embed.FS

var failurePage = template.Must(template.ParseFS(pages, "pages/failure.html"))

// Failures are the errors for which there is a page of their own, and one for all others.
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
		h.Log.Error("showing a failed sign-in", zap.Error(err))
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
	f, lang := failureOf(err), web.Language(r)
	data := map[string]string{
		"Lang": lang, "Text": f.text.In(lang), "Title": explain.Text{En: "Sign in", Ko: "로그인"}.In(lang),
		"Again": startPath + "?return=" + url.QueryEscape("/"), "AgainText": explain.Text{En: "Try again", Ko: "다시 시도"}.In(lang),
		"HomeText": explain.Text{En: "To the sign-in page", Ko: "로그인 화면으로"}.In(lang),
	}
	const policy = "default-src 'none'; base-uri 'none'; frame-ancestors 'none'"
	return web.SendPage(w, r, f.status, policy, failurePage, data)
}
