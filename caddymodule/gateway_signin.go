package codehub

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/auth"
)

// signIn answers a request of nobody: people go to the login page and come back
// afterwards, everything else gets status 401.
func (g *Gateway) signIn(w http.ResponseWriter, r *http.Request, v visit) error {
	if v.who != navigation {
		problemNoSession.with("Sign in first.").write(w)
		return nil
	}
	back := url.QueryEscape(r.URL.RequestURI())
	switch {
	case !v.host:
		redirect(w, "/login?return="+back, http.StatusSeeOther)
	case v.id == "":
		return g.notFound(w, r, v)
	default:
		redirect(w, g.mainOrigin(r)+"/auth/ticket?workspace="+string(v.id)+"&return="+back, http.StatusSeeOther)
	}
	return nil
}

// mainOrigin is where people sign in, as seen from a workspace's host.
func (g *Gateway) mainOrigin(r *http.Request) string {
	host := g.mainHost
	if host == "" {
		host = g.domain[1:]
		if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
			host = net.JoinHostPort(host, port)
		}
	}
	return scheme(r) + "://" + host
}

// redeem signs somebody in on a workspace's host, with the one-time ticket that
// the main host has given. The session cookie of the main host never comes here.
func (g *Gateway) redeem(w http.ResponseWriter, r *http.Request, p place) error {
	v := visit{place: p, who: navigation}
	if p.id == "" || r.Method != http.MethodGet {
		return g.notFound(w, r, v)
	}
	query := r.URL.Query()
	back := localPath(query.Get("return"))
	token, err := g.deps.sessions.Redeem(r.Context(), query.Get("t"), p.id)
	switch {
	case errors.Is(err, auth.ErrBadTicket) || errors.Is(err, auth.ErrNoSession) || errors.Is(err, auth.ErrNoWorkspace):
		return g.messagePage(w, r, http.StatusForbidden, expiredTicket(back))
	case err != nil:
		g.logger.Error("redeeming a ticket", zap.Error(err))
		return g.unavailable(w, "It cannot be checked at the moment who you are.")
	}
	http.SetCookie(w, &http.Cookie{
		Name: workspaceCookie, Value: token, Path: "/",
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: scheme(r) == "https",
	})
	redirect(w, back, http.StatusSeeOther)
	return nil
}

// localPath returns s if it is a path of this very host, else "/". What browsers
// would take for another host, or for a scheme, is none.
func localPath(s string) string {
	if len(s) == 0 || s[0] != '/' || len(s) > 1 && s[1] == '/' || strings.ContainsRune(s, '\\') {
		return "/"
	}
	for i := range len(s) {
		if s[i] <= ' ' || s[i] == 0x7f {
			return "/"
		}
	}
	if u, err := url.Parse(s); err != nil || u.Host != "" || u.Scheme != "" {
		return "/"
	}
	return s
}
