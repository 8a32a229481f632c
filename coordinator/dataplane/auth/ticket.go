package auth

import (
	"context"
	"encoding/base64"
	"errors"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// NewBrowserSecret returns a secret for a browser that is about to request a ticket. The secret stays in a cookie of
// the workspace's host. Only its [BrowserHash] is sent to the main site.
func NewBrowserSecret() string {
	secret, _ := newToken()
	return secret
}

// BrowserHash returns the hash of a browser's secret as text for a URL. A ticket is bound to this hash. ok is false if
// the text cannot be such a secret.
func BrowserHash(secret string) (text string, ok bool) {
	hash, ok := hashToken(secret)
	return base64.RawURLEncoding.EncodeToString(hash[:]), ok
}

// Ticket returns a one-time ticket for the user with the main session token. A browser uses it to start a session at the host of
// one of the user's workspaces. browser is the [BrowserHash] of the browser's secret: the ticket is worthless in another browser.
// It returns [ErrNoSession] or [ErrNoWorkspace]. If browser is not a hash, it returns [ErrBadTicket].
func (a *Auth) Ticket(ctx context.Context, token string, id workspace.ID, browser string) (ticket string, err error) {
	if _, err := a.Session(ctx, token); err != nil {
		return "", err
	}
	if _, err := workspace.ParseID(string(id)); err != nil {
		return "", ErrNoWorkspace
	}
	var bound accounts.TokenHash
	bits, err := base64.RawURLEncoding.DecodeString(browser)
	if err != nil || copy(bound[:], bits) != len(bound) || len(bits) != len(bound) {
		return "", ErrBadTicket
	}
	session, _ := hashToken(token)
	ticket, hash := newToken()
	err = a.store.AddTicket(ctx, session, id, hash, bound, a.opts.TicketTTL)
	if errors.Is(err, postgres.ErrNotFound) {
		return "", ErrNoWorkspace
	}
	if err != nil {
		return "", err
	}
	return ticket, nil
}

// Redeem uses up a ticket, and returns the token of a session for that workspace. The session ends with the main
// session for which the ticket was issued. browser is the secret of the browser that requested the ticket. It returns
// [ErrBadTicket].
func (a *Auth) Redeem(ctx context.Context, ticket, browser string, id workspace.ID) (wsToken string, err error) {
	hash, ok := hashToken(ticket)
	bound, known := hashToken(browser)
	if _, err := workspace.ParseID(string(id)); err != nil || !ok || !known {
		return "", ErrBadTicket
	}
	token, stored := newToken()
	_, err = a.store.RedeemTicket(ctx, hash, bound, id, stored)
	if errors.Is(err, postgres.ErrNotFound) {
		return "", ErrBadTicket
	}
	if a.sessions.outage.Report(ctx, err); err != nil {
		return "", err
	}
	return token, nil
}

// WorkspaceSession returns the grant of a session that [Auth.Redeem] started for this workspace. Such a session is valid neither
// for another workspace nor as a main session. It returns the errors of [Auth.Session].
func (a *Auth) WorkspaceSession(ctx context.Context, wsToken string, id workspace.ID) (Grant, error) {
	if id == "" {
		return Grant{}, ErrNoSession
	}
	return a.sessions.grant(ctx, wsToken, id)
}
