package auth

import (
	"context"
	"errors"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Ticket returns a one-time ticket with which the browser that holds the main
// session token can start a session at the host of one of its user's workspaces. It
// returns [ErrNoSession] and [ErrNoWorkspace].
func (a *Auth) Ticket(ctx context.Context, token string, id workspace.ID) (ticket string, err error) {
	if _, err := a.Session(ctx, token); err != nil {
		return "", err
	}
	if _, err := workspace.ParseID(string(id)); err != nil {
		return "", ErrNoWorkspace
	}
	session, _ := hashToken(token)
	ticket, hash := newToken()
	err = a.store.AddTicket(ctx, session, id, hash, a.opts.TicketTTL)
	if errors.Is(err, store.ErrNotFound) {
		return "", ErrNoWorkspace
	}
	if err != nil {
		return "", err
	}
	return ticket, nil
}

// Redeem uses up a ticket and returns the token of a session for that workspace,
// which ends with the main session it came from. It returns [ErrBadTicket].
func (a *Auth) Redeem(ctx context.Context, ticket string, id workspace.ID) (wsToken string, err error) {
	hash, ok := hashToken(ticket)
	if _, err := workspace.ParseID(string(id)); err != nil || !ok {
		return "", ErrBadTicket
	}
	token, stored := newToken()
	_, err = a.store.RedeemTicket(ctx, hash, id, stored)
	if errors.Is(err, store.ErrNotFound) {
		return "", ErrBadTicket
	}
	if a.sessions.outage.Report(ctx, err); err != nil {
		return "", err
	}
	return token, nil
}

// WorkspaceSession returns the user of a session that [Auth.Redeem] started for
// this workspace. Such a session is not valid for another workspace or as a main
// session. It returns the errors of [Auth.Session].
func (a *Auth) WorkspaceSession(ctx context.Context, wsToken string, id workspace.ID) (User, error) {
	if id == "" {
		return User{}, ErrNoSession
	}
	return a.sessions.user(ctx, wsToken, id)
}
