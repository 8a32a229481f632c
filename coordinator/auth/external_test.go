package auth

import (
	"testing"
	"time"
)

// TestAProviderEndsItsSessions: one sign-in at a provider, or all of an identity, and nobody
// else's; also where the session is known and nothing reads the database for it.
func TestAProviderEndsItsSessions(t *testing.T) {
	a := open(t, Options{CacheTTL: time.Hour})
	sign := func(issuer, subject, session string) string {
		t.Helper()
		token, _, err := a.SignInExternal(t.Context(), External{Issuer: issuer, Subject: subject, Name: subject, Create: true, Session: session}, Client{})
		if err != nil {
			t.Fatal(err)
		}
		wantSession(t, a, "at first", token, nil)
		return token
	}
	const issuer = "https://id.example"
	one, two, three := sign(issuer, "ann", "1"), sign(issuer, "ann", "2"), sign(issuer, "ann", "3")
	bob, elsewhere := sign(issuer, "bob", "4"), sign("https://other.example", "ann", "1")
	if err := a.EndExternal(t.Context(), issuer, "", "1"); err != nil {
		t.Fatal(err)
	}
	wantSession(t, a, "the sign-in that ended", one, ErrNoSession)
	wantSession(t, a, "another sign-in", two, nil)
	if err := a.EndExternal(t.Context(), issuer, "ann", ""); err != nil {
		t.Fatal(err)
	}
	wantSession(t, a, "of the identity", two, ErrNoSession)
	wantSession(t, a, "of the identity", three, ErrNoSession)
	wantSession(t, a, "another identity's", bob, nil)
	wantSession(t, a, "of another provider", elsewhere, nil)
}
