package api

import (
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// login is POST /auth/login: it checks a password, starts a session and sets its
// cookie, which lasts as long as the session.
func (c *call) login() error {
	var in struct {
		Username string `json:"username"`
		Password string `json:"password"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if c.NoPasswords {
		return problem.NoPasswords.With("problem.sign_in_provider", nil)
	}
	token, user, err := c.Auth.Login(c.r.Context(), in.Username, in.Password, c.client(c.r))
	if err != nil {
		return err
	}
	// A sign-in replaces the browser's previous session.
	if err := c.endSession(); err != nil {
		c.Logger.Warn("the session before a new sign-in could not be ended", zap.Error(err))
	}
	c.setSession(token)
	return sendJSON(c.w, http.StatusOK, v1.UserOf(user))
}

// setSession gives the browser a session's cookie, which lasts as long as the session.
func (c *call) setSession(token string) {
	c.at.SetSession(c.w, site.SessionCookie, token, int(c.Auth.SessionTTL()/time.Second))
}

// changePassword is POST /me/password {"present": …, "password": …}: it changes the user's
// password. All sessions end, and the browser gets a new one. It answers 400 if the present password is wrong or the
// new one is too short, and 403 if the user signs in elsewhere.
func (c *call) changePassword() error {
	var in struct {
		Present  string `json:"present"`
		Password string `json:"password"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	elsewhere := !c.passwords()
	if !elsewhere && c.Provider != nil {
		issuer, err := c.Auth.IssuerOf(c.r.Context(), c.token)
		if err != nil {
			return err
		}
		elsewhere = issuer != ""
	}
	if elsewhere {
		return problem.NoPasswords.With("problem.password_elsewhere", nil)
	}
	token, err := c.Auth.ChangePassword(c.r.Context(), c.user.Username, in.Present, in.Password, c.client(c.r))
	if errors.Is(err, auth.ErrBadCredentials) {
		return problem.InvalidField("present", "problem.wrong_password", nil)
	}
	if err != nil {
		return err
	}
	c.setSession(token)
	return c.sendNothing(http.StatusNoContent)
}

// passwords reports whether people sign in here with passwords.
func (h *Handler) passwords() bool { return h.Identity == nil && !h.NoPasswords }

// client returns the origin of the request.
func (h *Handler) client(r *http.Request) auth.Client {
	return auth.Client{Address: h.ClientAddress(r), Agent: r.UserAgent()}
}

// logout is POST /auth/logout: it ends the session in every process, and deletes the cookie. It also succeeds without a
// session. If the user signed in through a provider that has a logout address, the answer contains that address.
func (c *call) logout() error {
	c.fromMemory = c.token == ""
	if c.Identity != nil { // there is no session of ours to end
		return c.signedOut(c.SignOut)
	}
	elsewhere, err := c.providerLogout()
	if err != nil {
		return err
	}
	if err := c.endSession(); err != nil {
		return err
	}
	c.at.SetSession(c.w, site.SessionCookie, "", 0)
	return c.signedOut(elsewhere)
}

// signedOut answers with the address where the browser must also sign out, if there is one.
func (c *call) signedOut(elsewhere string) error {
	if elsewhere != "" {
		return sendJSON(c.w, http.StatusOK, map[string]string{"redirect": elsewhere})
	}
	return c.sendNothing(http.StatusNoContent)
}

// providerLogout returns the address at which the browser also signs out of the session's provider.
func (c *call) providerLogout() (string, error) {
	if c.Provider == nil || c.token == "" {
		return "", nil
	}
	issuer, err := c.Auth.IssuerOf(c.r.Context(), c.token)
	if err != nil || issuer == "" {
		return "", err
	}
	return c.Provider.LogoutURL(&c.at, issuer), nil
}

// endSession ends the request's session, if it has a valid one.
func (c *call) endSession() error {
	if c.token == "" {
		return nil
	}
	if err := c.Auth.Logout(c.r.Context(), c.token); err != nil && !errors.Is(err, auth.ErrNoSession) {
		return err
	}
	return nil
}

// session is GET /auth/session, and GET /me: the signed-in user.
func (c *call) session() error {
	c.fromMemory = true // as a rule
	return sendJSON(c.w, http.StatusOK, v1.UserOf(c.user))
}

// ticket is GET /auth/ticket?workspace&return: it signs a browser in to a workspace on a host of its own. That host
// never gets the session cookie. So ticket redirects the browser to it with a ticket that works once. A user without a
// session signs in first, and then comes back to this address.
func (h *Handler) ticket(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	host, browser, ok := site.TicketRequest(r)
	if !ok || h.Identity != nil { // Identity knows who is signed in on every host
		return problem.Of(auth.ErrNoWorkspace)
	}
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	token, _ := at.Token(r.Header, site.SessionCookie)
	ticket, err := h.Auth.Ticket(r.Context(), token, host.ID, browser)
	switch {
	case errors.Is(err, auth.ErrBadTicket):
		// The workspace's host did not send the browser here, but the sign-in must begin there.
		back := site.LocalPath(r.URL.Query().Get("return"))
		site.Redirect(w, at.PortOrigin(host.ID, host.Port)+back, http.StatusSeeOther)
		return nil
	case errors.Is(err, auth.ErrNoSession):
		site.Redirect(w, site.LoginPath(r), http.StatusSeeOther)
		return nil
	case errors.Is(err, auth.ErrNoWorkspace):
		return problem.Of(err)
	case err != nil:
		return h.unavailable(w, r, err)
	}
	site.Redirect(w, at.RedeemURL(r, host, ticket, site.ChosenLanguage(r)), http.StatusSeeOther)
	return nil
}
