package auth

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// signedIn signs a user in.
func signedIn(t testing.TB, a *Auth, name string) Grant {
	t.Helper()
	g, err := a.Grant(t.Context(), login(t, a, name))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// makeToken creates an access token for the user.
func makeToken(t testing.TB, a *Auth, g Grant, of ...Scope) (Token, string) {
	t.Helper()
	token, secret, err := a.CreateToken(t.Context(), g, " backup \n", of, 1)
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func wantToken(t testing.TB, a *Auth, what, secret string, want error) {
	t.Helper()
	if _, err := a.Token(t.Context(), secret, ScopeRead, ""); !errors.Is(err, want) {
		t.Errorf("%s: Token = %v, want %v", what, err, want)
	}
}

func TestAnAccessToken(t *testing.T) {
	a := open(t, Options{CacheTTL: time.Minute})
	c := newClock()
	a.sessions.now = c.Now
	ann := addUser(t, a, "ann")
	g := signedIn(t, a, "ann")
	token, secret := makeToken(t, a, g, ScopeWorkspace, ScopeRead, ScopeRead)
	if token.Name != "backup" || !slices.Equal(token.Scopes, []Scope{ScopeRead, ScopeWorkspace}) || !token.LastUsedAt.IsZero() ||
		token.ExpiresAt.Sub(token.CreatedAt) != 24*time.Hour || !strings.HasPrefix(secret, "chg_") || len(secret) != 47 {
		t.Fatalf("got %+v, %d characters", token, len(secret))
	}
	if n := storetest.Value[int64](t, a.store, `SELECT count(*) FROM sessions s WHERE s::text LIKE '%' || $1 || '%'`, secret[4:]); n != 0 {
		t.Error("the secret is stored")
	}
	got, err := a.Token(t.Context(), secret, ScopeWorkspace, "192.0.2.7")
	if err != nil || got.User != ann || got.Session() != token.ID {
		t.Fatalf("Token = %+v, %v", got, err)
	}
	a.sessions.checks.Wait()
	list, err := a.Tokens(t.Context(), ann.ID)
	if err != nil || len(list) != 1 || list[0].LastUsedAt.IsZero() || list[0].LastUsedAddress != "192.0.2.7" {
		t.Fatalf("after its use: %+v, %v", list, err)
	}
	c.Advance(touchEvery + time.Minute)
	if _, err := a.Token(t.Context(), secret, ScopeWorkspace, "2001:db8::1"); err != nil {
		t.Fatal(err)
	}
	a.sessions.checks.Wait()
	if list, err := a.Tokens(t.Context(), ann.ID); err != nil || list[0].LastUsedAddress != "2001:db8::1" || list[0].Name != "backup" {
		t.Errorf("after a later use: %+v, %v", list, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = a.Token(t.Context(), secret, ScopeWorkspace, "192.0.2.7") }); n != 0 {
		t.Errorf("%v allocations for a known token", n)
	}
}

func TestScopesOfAccessTokens(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	if _, err := a.AddUser(t.Context(), "root", password, RoleAdmin); err != nil {
		t.Fatal(err)
	}
	root := signedIn(t, a, "root")
	for _, c := range []struct {
		of, may []Scope
		admin   bool
	}{
		{[]Scope{ScopeRead}, []Scope{ScopeRead}, false},
		{[]Scope{ScopeWrite}, []Scope{ScopeRead, ScopeWrite}, false},
		{[]Scope{ScopeWorkspace}, []Scope{ScopeWorkspace}, false},
		{[]Scope{ScopeAdmin}, []Scope{ScopeAdmin}, true},
		{Scopes(), Scopes(), true},
	} {
		_, secret := makeToken(t, a, root, c.of...)
		for _, needs := range append(Scopes(), NoScope, "future") {
			got, err := a.Token(t.Context(), secret, needs, "")
			var refused *ScopeError
			if may := slices.Contains(c.may, needs); may != (err == nil) || !may && (!errors.As(err, &refused) || refused.Needs != needs) {
				t.Errorf("%v for what needs %q: %v", c.of, needs, err)
			}
			if err == nil && got.Admin() != c.admin {
				t.Errorf("with %v, %s is an administrator: %v", c.of, got.Username, got.Admin())
			}
		}
	}
	// A token has the rights that the user has at the time of the request.
	_, secret := makeToken(t, a, root, ScopeAdmin)
	storetest.Exec(t, a.store, `UPDATE users SET role = 'user'`)
	if got, err := a.Token(t.Context(), secret, ScopeAdmin, ""); err != nil || got.Admin() {
		t.Errorf("of one who is an administrator no more: %+v, %v", got, err)
	}
	a.sessions.checks.Wait()
	// A later release may know more scopes; in this release, a token with such a scope allows nothing.
	ann := signedIn(t, a, "ann")
	_, secret = makeToken(t, a, ann, ScopeRead)
	storetest.Exec(t, a.store, `UPDATE sessions SET scopes = '{future}' WHERE name IS NOT NULL`)
	for _, needs := range append(Scopes(), NoScope, "future") {
		var refused *ScopeError
		if _, err := a.Token(t.Context(), secret, needs, ""); !errors.As(err, &refused) {
			t.Errorf("a scope of a later release, for what needs %q: %v", needs, err)
		}
	}
}

func TestAccessTokensThatAreRefused(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	g := signedIn(t, a, "ann")
	read := []Scope{ScopeRead}
	for _, c := range []struct {
		name, field string
		of          []Scope
		days        int
	}{
		{"", "name", read, 1}, {" \t", "name", read, 1}, {strings.Repeat("x", 101), "name", read, 1}, {"a\nb", "name", read, 1},
		{"\xff", "name", read, 1}, {"a\u202eb", "name", read, 1},
		{"a", "scopes", nil, 1}, {"a", "scopes", []Scope{""}, 1}, {"a", "scopes", []Scope{"read", "all"}, 1}, {"a", "scopes", []Scope{ScopeAdmin}, 1},
		{"a", "expires_in_days", read, 0}, {"a", "expires_in_days", read, -1}, {"a", "expires_in_days", read, 366},
	} {
		var wrong *InvalidError
		if _, _, err := a.CreateToken(t.Context(), g, c.name, c.of, c.days); !errors.As(err, &wrong) || wrong.Field != c.field {
			t.Errorf("%q, %v, %d days: %v", c.name, c.of, c.days, err)
		}
	}
	_, secret := makeToken(t, a, g, ScopeRead, ScopeWrite)
	byToken, err := a.Token(t.Context(), secret, ScopeRead, "")
	if err != nil {
		t.Fatal(err)
	}
	a.sessions.checks.Wait()
	if _, _, err := a.CreateToken(t.Context(), byToken, "child", read, 1); !errors.Is(err, ErrNoSession) {
		t.Errorf("a token makes a token: %v", err)
	}
	for range MaxTokens - 1 {
		makeToken(t, a, g, ScopeRead)
	}
	if _, _, err := a.CreateToken(t.Context(), g, "one more", read, 1); !errors.Is(err, ErrTooManyTokens) {
		t.Errorf("one more than the most: %v", err)
	}
	if err := a.EndSession(t.Context(), g, g.Session()); err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, a.store, `DELETE FROM sessions`)
	if _, _, err := a.CreateToken(t.Context(), g, "late", read, 1); !errors.Is(err, ErrNoSession) {
		t.Errorf("after the sign-out: %v", err)
	}
}

// TestSessionsAndAccessTokensAreNotMixedUp: an access token is not accepted in a cookie, and a session's token is not
// accepted in a header.
func TestSessionsAndAccessTokensAreNotMixedUp(t *testing.T) {
	a := open(t, Options{})
	ann := addUser(t, a, "ann")
	session := login(t, a, "ann")
	g, err := a.Grant(t.Context(), session)
	if err != nil {
		t.Fatal(err)
	}
	token, secret := makeToken(t, a, g, Scopes()[:3]...)
	for _, cookie := range []string{secret, secret[len(TokenPrefix):]} {
		wantSession(t, a, "a token in the cookie", cookie, ErrNoSession)
		if _, err := a.WorkspaceSession(t.Context(), cookie, addWorkspace(t, a, ann)); !errors.Is(err, ErrNoSession) {
			t.Errorf("a token in the cookie of a workspace's host: %v", err)
		}
		if _, err := a.Ticket(t.Context(), cookie, addWorkspace(t, a, ann), strings.Repeat("A", 43)); !errors.Is(err, ErrNoSession) {
			t.Errorf("a ticket for a token: %v", err)
		}
		if err := a.Logout(t.Context(), cookie); err != nil {
			t.Error(err)
		}
	}
	wantToken(t, a, "after all that", secret, nil)
	for _, junk := range []string{"", "chg_", session, TokenPrefix + session, TokenPrefix + session[4:], secret + "x", "CHG_" + secret[4:], secret[4:]} {
		wantToken(t, a, "no token", junk, ErrBadToken)
	}
	// This would hold even if a session's row had the same hash as a token.
	hash, _ := hashSecret(secret)
	if _, err := a.sessions.grantOf(t.Context(), hash, workspace.ID("")); !errors.Is(err, ErrNoSession) {
		t.Errorf("a token's row as a session: %v", err)
	}
	// Lists of sign-ins contain no tokens. Ending a sign-in does not end a token, and ending a token does not end a
	// sign-in.
	if open, err := a.Sessions(t.Context(), g); err != nil || len(open) != 1 || !open[0].Current {
		t.Errorf("sign-ins: %+v, %v", open, err)
	}
	if err := a.EndSession(t.Context(), g, token.ID); !errors.Is(err, ErrNoSession) {
		t.Errorf("ending a token as a sign-in: %v", err)
	}
	if err := a.RevokeToken(t.Context(), ann.ID, g.Session()); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoking a sign-in as a token: %v", err)
	}
	if err := a.EndSession(t.Context(), g, ""); err != nil {
		t.Fatal(err)
	}
	wantToken(t, a, "the other sign-ins have ended", secret, nil)
	if err := a.Logout(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	wantToken(t, a, "the sign-in that made it has ended", secret, nil)
}

func TestWhatEndsAccessTokens(t *testing.T) {
	a := open(t, Options{})
	bob := addUser(t, a, "bob")
	for name, end := range map[string]func(ann User, id string) error{
		"revoked": func(ann User, id string) error { return a.RevokeToken(t.Context(), ann.ID, id) },
		"expired": func(_ User, id string) error {
			storetest.Exec(t, a.store, `UPDATE sessions SET expires_at = now() WHERE id = $1`, id)
			return nil
		},
		"disabled": func(ann User, _ string) error { return a.SetDisabled(t.Context(), ann.Username, true) },
		"password": func(ann User, _ string) error { return a.SetPassword(t.Context(), ann.Username, password) },
		"own": func(ann User, _ string) error {
			_, err := a.ChangePassword(t.Context(), ann.Username, password, password+"2", Client{})
			return err
		},
	} {
		ann := addUser(t, a, name)
		token, secret := makeToken(t, a, signedIn(t, a, name), ScopeRead)
		got, err := a.Token(t.Context(), secret, ScopeRead, "")
		if err != nil {
			t.Fatal(err)
		}
		a.sessions.checks.Wait()
		stream := attach(t, got, nil)
		if err := a.RevokeToken(t.Context(), bob.ID, token.ID); !errors.Is(err, ErrNoToken) {
			t.Errorf("another user revokes it: %v", err)
		}
		wantToken(t, a, "before it is "+name, secret, nil)
		if err := end(ann, token.ID); err != nil {
			t.Fatal(err)
		}
		a.Resync() // instead of the notification
		stream.wait(t, name)
		a.sessions.checks.Wait()
		wantToken(t, a, name, secret, ErrBadToken)
		if list, err := a.Tokens(t.Context(), ann.ID); err != nil || len(list) != 0 {
			t.Errorf("%s, and listed: %+v, %v", name, list, err)
		}
	}
}

// TestNoAccessTokenIsMadeBesideAChangeOfThePassword: an intruder who knows the old password may create a token while
// the password is being changed. No such token remains valid.
func TestNoAccessTokenIsMadeBesideAChangeOfThePassword(t *testing.T) {
	a := open(t, Options{})
	ann := addUser(t, a, "ann")
	for range 20 {
		g := signedIn(t, a, "ann")
		made := make(chan error, 1)
		go func() {
			_, _, err := a.CreateToken(t.Context(), g, "x", []Scope{ScopeRead}, 1)
			made <- err
		}()
		if err := a.SetPassword(t.Context(), "ann", password); err != nil {
			t.Fatal(err)
		}
		if err := <-made; err != nil && !errors.Is(err, ErrNoSession) {
			t.Fatal(err)
		}
		if list, err := a.Tokens(t.Context(), ann.ID); err != nil || len(list) != 0 {
			t.Fatalf("%+v, %v", list, err)
		}
	}
}
