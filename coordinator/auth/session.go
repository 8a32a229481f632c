package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"go.uber.org/zap"
)

// Session returns the user of a main session. It returns [ErrNoSession], or
// another error when PostgreSQL, which has to be asked about a session never seen
// here, does not answer.
func (a *Auth) Session(ctx context.Context, token string) (User, error) {
	return a.session(ctx, token, "")
}

// WorkspaceSession returns the user of a session that [Auth.Redeem] started for
// this workspace. It opens no other, and is no main session.
func (a *Auth) WorkspaceSession(ctx context.Context, wsToken string, id workspace.ID) (User, error) {
	if id == "" {
		return User{}, ErrNoSession
	}
	return a.session(ctx, wsToken, id)
}

// session answers for a session that opens id: no workspace for a main one.
func (a *Auth) session(ctx context.Context, token string, id workspace.ID) (User, error) {
	h, ok := hashToken(token)
	if !ok {
		return User{}, ErrNoSession
	}
	now := a.now().UnixNano()
	e := a.cache.get(&h, now)
	if e == nil {
		var err error
		if e, err = a.load(ctx, h); err != nil {
			return User{}, err
		}
	} else if now-e.checked.Load() > int64(a.o.CacheTTL) {
		a.lookAgain(h, e, now)
	}
	if e.workspace != id {
		return User{}, ErrNoSession
	}
	return e.user, nil
}

// load reads a session that is not in memory. Requests that come with the same
// token meanwhile, as a page's do, wait for the one answer.
func (a *Auth) load(ctx context.Context, h store.TokenHash) (*entry, error) {
	answer := a.flights.DoChan(string(h[:]), func() (any, error) {
		// Not the first request's context: the others must not fail because its
		// client went away.
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		select {
		case a.lookups <- struct{}{}:
			defer func() { <-a.lookups }()
		case <-looking.Done():
			return nil, fmt.Errorf("waiting to look up a session: %w", looking.Err())
		}
		generation := a.cache.generation.Load()
		v, err := a.store.Session(looking, h)
		if errors.Is(err, store.ErrNotFound) {
			return nil, ErrNoSession
		}
		if err != nil {
			return nil, err
		}
		return a.cache.put(&h, v, generation, a.now().UnixNano()), nil
	})
	select {
	case r := <-answer:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*entry), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("looking up a session: %w", ctx.Err())
	}
}

// lookAgain checks a cached session beside the request that noticed its age. At
// most one look per session, maxLookups in all, and none for a while after one
// that failed: the session stays good until PostgreSQL can say otherwise.
func (a *Auth) lookAgain(h store.TokenHash, e *entry, now int64) {
	if now < a.retryAt.Load() || !e.looking.CompareAndSwap(false, true) {
		return
	}
	if !a.background(func(ctx context.Context) {
		defer e.looking.Store(false)
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		v, err := a.store.Session(ctx, h)
		switch {
		case errors.Is(err, store.ErrNotFound):
			a.cache.drop(&h, e)
		case err != nil:
			a.retryAt.Store(a.now().Add(retryAfter).UnixNano())
			if ctx.Err() != context.Canceled && !a.away.Swap(true) {
				a.log.Warn("sessions cannot be checked; those in memory stay valid", zap.Error(err))
			}
		default:
			if a.away.Swap(false) {
				a.log.Info("sessions can be checked again")
			}
			a.renew(h, e, v)
		}
	}) {
		e.looking.Store(false)
	}
}

// renew marks e as just checked, or lets it go when the user has changed: the
// next request reads it anew.
func (a *Auth) renew(h store.TokenHash, e *entry, v store.Session) {
	if e.user != (User{ID: v.UserID, Username: v.Username, Role: v.Role}) {
		a.cache.drop(&h, e)
		return
	}
	e.checked.Store(a.now().UnixNano())
}

// background runs f if there is a free place and Close was not called.
func (a *Auth) background(f func(context.Context)) bool {
	select {
	case a.lookups <- struct{}{}:
	default:
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		<-a.lookups
		return false
	}
	a.looking.Go(func() {
		defer func() { <-a.lookups }()
		f(a.ctx)
	})
	return true
}

// Revoked forgets a session that has ended, and those of workspaces that belong
// to it. The listener calls it (store.ChannelRevoked).
func (a *Auth) Revoked(sessionID string) { a.cache.revoke(sessionID) }

// Resync has every session looked up again at its next use. The listener calls
// it when it has connected: what ended before was not told.
func (a *Auth) Resync() { a.cache.expireChecks() }

// Ticket returns a one-time ticket with which the browser that holds the main
// session token can start a session at the host of a workspace of its user's. It
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
	err = a.store.AddTicket(ctx, session, id, hash, a.o.TicketTTL)
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
	if err != nil {
		return "", err
	}
	return token, nil
}
