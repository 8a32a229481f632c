package preview

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/workspace"
)

// accounts are the user of a board, and the users whom an administrator sees there.
type accounts struct{ *board }

// user is the user who looks at the board.
func (b *board) user() auth.User {
	u := auth.User{ID: ownerID, Username: ownerName, Role: auth.RoleUser}
	if b.admin {
		u.Role = auth.RoleAdmin
	}
	return u
}

func (accounts) SessionTTL() time.Duration { return 30 * 24 * time.Hour }

func (b accounts) Grant(context.Context, string) (auth.Grant, error) {
	if b.expired {
		return auth.Grant{}, auth.ErrNoSession
	}
	return auth.Grant{User: b.user()}, nil
}

func (accounts) Token(context.Context, string, auth.Scope, string) (auth.Grant, error) {
	return auth.Grant{}, auth.ErrBadToken
}

func (accounts) IssuerOf(context.Context, string) (string, error) { return "", nil }

func (accounts) Ticket(context.Context, string, workspace.ID, string) (string, error) {
	return "", auth.ErrNoWorkspace
}

func (b accounts) Login(context.Context, string, string, auth.Client) (string, auth.User, error) {
	if b.refuse != nil {
		return "", auth.User{}, b.refuse
	}
	return "preview", b.user(), nil
}

func (accounts) Logout(context.Context, string) error { return nil }

func (b accounts) ChangePassword(context.Context, string, string, string, auth.Client) (string, error) {
	return "preview", b.refused()
}

// Sessions are the sign-ins of the user.
func (accounts) Sessions(context.Context, auth.Grant) ([]auth.OpenSession, error) {
	now := time.Now()
	signIn := func(id, agent, address string) auth.OpenSession {
		return auth.OpenSession{
			ID: id, Client: auth.Client{Address: address, Agent: agent}, Current: id == "1",
			CreatedAt: now.Add(-50 * time.Hour), LastUsedAt: now.Add(-time.Hour), ExpiresAt: now.Add(50 * time.Hour),
		}
	}
	return []auth.OpenSession{
		signIn("1", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "192.0.2.1"),
		signIn("2", "curl/8.5.0", "192.0.2.2"), signIn("3", "", "2001:db8::1"),
	}, nil
}

func (b accounts) EndSession(context.Context, auth.Grant, string) error { return b.refused() }

// Tokens returns no tokens for a user without a workspace.
func (b accounts) Tokens(context.Context, string) ([]auth.Token, error) {
	if len(b.rows) == 0 {
		return nil, nil
	}
	return accessTokens(), nil
}

func (b accounts) CreateToken(context.Context, auth.Grant, string, []auth.Scope, int) (auth.Token, string, error) {
	if b.refuse != nil {
		return auth.Token{}, "", b.refuse
	}
	return accessTokens()[0], auth.TokenPrefix + "of-the-preview-it-opens-nothing-anywhere-00", nil
}

func (b accounts) RevokeToken(context.Context, string, string) error { return b.refuse }

// Accounts are an administrator, a user with limits of their own, and a disabled one.
func (b accounts) Accounts(context.Context, string, int, string) ([]auth.Account, string, error) {
	at := time.Now().Add(-90 * 24 * time.Hour)
	return []auth.Account{
		{User: auth.User{ID: ownerID, Username: ownerName, Role: auth.RoleAdmin}, HasPassword: true, CreatedAt: at, LastSignInAt: time.Now(), Workspaces: len(b.rows), Running: 1},
		{User: auth.User{ID: "2", Username: "mina", Role: auth.RoleUser}, HasPassword: true, CreatedAt: at, Workspaces: 3, MaxRunning: 5},
		{User: auth.User{ID: "3", Username: "yuna@example.com", Role: auth.RoleUser}, Disabled: true, CreatedAt: at, Workspaces: 1},
	}, "", nil
}

func (b accounts) Account(ctx context.Context, id string) (auth.Account, error) {
	all, _, _ := b.Accounts(ctx, "", 0, "")
	for _, a := range all {
		if a.ID == id {
			return a, nil
		}
	}
	return auth.Account{}, auth.ErrNoUser
}

func (b accounts) AddUser(context.Context, string, string, string) (auth.User, error) {
	return auth.User{}, b.refused()
}

func (b accounts) ChangeAccount(context.Context, string, auth.AccountChange) (auth.Account, error) {
	return auth.Account{}, b.refused()
}

func (b accounts) SignOut(context.Context, string) error { return b.refused() }
func (b accounts) Unlock(context.Context, string) error  { return b.refused() }

// accessTokens returns three access tokens: one that has not been used yet, one that is in use, and one that expires
// soon.
func accessTokens() []auth.Token {
	now := time.Now()
	made := func(id, name string, left time.Duration, of ...auth.Scope) auth.Token {
		return auth.Token{ID: id, Name: name, Scopes: of, CreatedAt: now.Add(left - 30*24*time.Hour), ExpiresAt: now.Add(left)}
	}
	used := made("2", "nightly build", 12*24*time.Hour, auth.ScopeWrite, auth.ScopeWorkspace)
	used.LastUsedAt, used.LastUsedAddress = now.Add(-7*time.Minute), "192.0.2.17"
	ends := made("3", "laptop", 20*time.Hour, auth.Scopes()...)
	ends.LastUsedAt, ends.LastUsedAddress = now.Add(-9*24*time.Hour), "2001:db8::17"
	return []auth.Token{made("1", "backup", 30*24*time.Hour, auth.ScopeRead), used, ends}
}
