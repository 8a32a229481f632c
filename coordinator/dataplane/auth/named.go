package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// namedPrefix is hashed together with a name. It is longer than a token. So no token has the same hash, and no cookie
// can open such a session.
const namedPrefix = "codehub: the session of a user whom another authentication names\x00"

const _ = uint(len(namedPrefix) - tokenLength - 1)

// Why a named user is not admitted. All of them wrap [ErrNoSession].
var (
	errNamedUnknown  = fmt.Errorf("%w: %w", ErrNoSession, ErrUnknownUser)
	errNamedDisabled = fmt.Errorf("%w: %w", ErrNoSession, ErrDisabled)
	errNamedRefused  = fmt.Errorf("%w: %w", ErrNoSession, ErrRefusedName)
)

// maxName bounds a name in bytes: 255 characters.
const maxName = 4 * 255

// Named returns a grant for a user named by another authentication, usually from memory. It opens a session that all
// processes share. So if the user is disabled, everything that is open ends, as for other users. With create, it adds
// an unknown user. If the user is not admitted, the error wraps [ErrNoSession] and one of [ErrUnknownUser],
// [ErrDisabled] and [ErrRefusedName]; for an empty name it is [ErrNoSession] alone. If PostgreSQL does not answer, it
// is another error.
func (a *Auth) Named(ctx context.Context, name string, create bool) (Grant, error) {
	if name == "" {
		return Grant{}, ErrNoSession
	}
	if len(name) > maxName {
		return Grant{}, errNamedUnknown
	}
	var text [512]byte // enough for most names
	hash := accounts.TokenHash(sha256.Sum256(append(append(text[:0], namedPrefix...), name...)))
	grant, err := a.sessions.grantOf(ctx, hash, "")
	if !errors.Is(err, ErrNoSession) {
		return grant, err
	}
	if err := a.openNamed(ctx, name, hash, create); err != nil {
		return Grant{}, err
	}
	return a.sessions.grantOf(ctx, hash, "")
}

// openNamed opens the session of a name.
func (a *Auth) openNamed(ctx context.Context, name string, hash accounts.TokenHash, create bool) error {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	row, err := a.userByName(ctx, name)
	if errors.Is(err, ErrNoUser) && create {
		if checkNewName(name) != nil {
			return errNamedRefused
		}
		var created bool
		if row, created, err = a.store.AddUser(audit.With(ctx, audit.Of(ctx).By("caddy")), name, "", RoleUser); err == nil && !created {
			row, err = a.userByName(ctx, name) // another request was faster
		}
	}
	switch {
	case errors.Is(err, ErrNoUser):
		return errNamedUnknown
	case err == nil && row.Disabled():
		return errNamedDisabled
	case err == nil:
		err = a.store.OpenNamedSession(ctx, row.ID, hash, a.opts.SessionTTL)
	}
	if errors.Is(err, postgres.ErrNotFound) {
		return errNamedDisabled // disabled just now
	}
	a.sessions.outage.Report(ctx, err)
	return err
}
