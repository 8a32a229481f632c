package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// The errors of sign-ins through another identity provider.
var (
	// ErrUnknownUser: no user has this identity, and the settings do not allow creating one.
	ErrUnknownUser = errors.New("no user belongs to this identity")
	// ErrDisabled: the user may no longer sign in.
	ErrDisabled = errors.New("the user is disabled")
	// ErrRefusedName: the user is unknown, and the name is not allowed for a new user.
	ErrRefusedName = errors.New("no user is added under this name")
	// ErrNoSubject: the provider has not identified the user, so different people would share one account.
	ErrNoSubject = errors.New(
		"the identity has no issuer, or its subject is missing, blank or longer than 255 characters")
)

// maxSubject is the longest subject in bytes (OpenID Connect Core, section 2: ASCII).
const maxSubject = 255

// External is a user authenticated by an identity provider.
type External struct {
	// Issuer and Subject are the identity. Names and mail addresses do not identify a user, because they can be given
	// to another person.
	Issuer, Subject string
	// Name is the preferred user name. If the name is taken or not allowed, a new user gets a different one.
	Name string
	// Role is the role that follows from the provider's groups. If Role is empty, an existing user keeps the present
	// role, and a new user gets [RoleUser].
	Role string
	// Create allows creating the user.
	Create bool
	// Session is the provider's own id of the sign-in, if any. The provider may use it to end the session here.
	Session string
}

// SignInExternal starts a session for the user with the identity, and creates the user at the first sign-in if that is allowed.
// It returns the session's token, [ErrNoSubject], [ErrUnknownUser] or [ErrDisabled].
func (a *Auth) SignInExternal(ctx context.Context, e External, from Client) (token string, u User, err error) {
	if strings.TrimSpace(e.Issuer) == "" || strings.TrimSpace(e.Subject) == "" || len(e.Subject) > maxSubject {
		return "", User{}, ErrNoSubject
	}
	provider := audit.With(ctx, audit.Of(ctx).By(e.Issuer))
	row, err := a.externalUser(provider, e)
	switch {
	case errors.Is(err, ErrUnknownUser):
		a.opts.Audit.Refused(provider, auditlog.Refusal{Action: audit.UserSignIn, Why: "unknown-user"})
	case errors.Is(err, ErrDisabled):
		a.opts.Audit.Refused(provider, auditlog.Refusal{
			Action: audit.UserSignIn, Why: "disabled", UserID: row.ID, Username: row.Username,
		})
	}
	if err != nil {
		return "", User{}, err
	}
	token, hash := newToken()
	s, err := a.store.AddExternalSession(ctx, row.ID, e.Issuer, e.Session, hash, a.opts.SessionTTL, from.origin())
	if errors.Is(err, postgres.ErrNotFound) {
		return "", User{}, ErrDisabled
	}
	if err != nil {
		return "", User{}, err
	}
	return token, userOf(s), nil
}

// nameAttempts bounds how many names are tried for a new user.
const nameAttempts = 100

// externalUser finds or creates the user of an identity, and updates the user's role.
func (a *Auth) externalUser(ctx context.Context, e External) (accounts.User, error) {
	row, err := a.store.UserByIdentity(ctx, e.Issuer, e.Subject)
	switch {
	case errors.Is(err, postgres.ErrNotFound) && !e.Create:
		return accounts.User{}, ErrUnknownUser
	case errors.Is(err, postgres.ErrNotFound):
		return a.createExternal(ctx, e)
	case err != nil:
		return accounts.User{}, err
	case row.Disabled():
		return row, ErrDisabled
	}
	if e.Role != "" && e.Role != row.Role {
		if err := a.store.SetRole(ctx, row.ID, e.Role); err != nil {
			return accounts.User{}, err
		}
		row.Role = e.Role
	}
	return row, nil
}

// createExternal adds the user of an identity. If the name belongs to another user already, a number is added to it.
func (a *Auth) createExternal(ctx context.Context, e External) (accounts.User, error) {
	role := e.Role
	role = cmp.Or(role, RoleUser)
	base := userNameFrom(e.Name)
	for i := range nameAttempts {
		name := base
		if i > 0 {
			name = fmt.Sprintf("%s-%d", base, i+1)
		}
		row, err := a.store.AddIdentity(ctx, e.Issuer, e.Subject, name, role)
		if !errors.Is(err, postgres.ErrNotFound) {
			return row, err
		}
	}
	return accounts.User{}, fmt.Errorf("creating a user for %q: all names that were tried are taken", base)
}

// userNameFrom derives a valid name for a new user by removing spaces and invisible characters.
func userNameFrom(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) || unicode.In(r, unseen...) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if r := []rune(s); len(r) > 200 {
		s = string(r[:200])
	}
	if checkNewName(s) != nil {
		return "user"
	}
	return s
}

// IssuerOf returns the provider through which the session was started, or "" for a password.
func (a *Auth) IssuerOf(ctx context.Context, token string) (string, error) {
	hash, ok := hashToken(token)
	if !ok {
		return "", nil
	}
	return a.store.SessionIssuer(ctx, hash)
}

// EndExternal ends sessions that were started by signing in at the provider. session is the provider's id of one of
// them. If it is empty, all sessions of the identity end.
func (a *Auth) EndExternal(ctx context.Context, issuer, subject, session string) error {
	ctx = audit.With(ctx, audit.Of(ctx).By(issuer))
	ended, err := a.store.EndExternalSessions(ctx, issuer, subject, session)
	a.sessions.cache.revoke(ended...)
	return err
}
