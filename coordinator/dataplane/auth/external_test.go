package auth

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestNobodyIsNoIdentity: a sign-in without an identity is refused. Otherwise all people whom the provider does not
// identify would share one user.
func TestNobodyIsNoIdentity(t *testing.T) {
	a := open(t, Options{})
	const issuer = "https://id.example"
	for name, e := range map[string]External{
		"no subject":       {Issuer: issuer},
		"a blank subject":  {Issuer: issuer, Subject: " \t"},
		"a subject of 256": {Issuer: issuer, Subject: strings.Repeat("x", 256)},
		"no issuer":        {Subject: "ann"},
	} {
		e.Name, e.Create = "ann", true
		if token, _, err := a.SignInExternal(t.Context(), e, Client{}); !errors.Is(err, ErrNoSubject) || token != "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if u, err := a.store.AddIdentity(t.Context(), issuer, "", "ann", RoleUser); err == nil {
		t.Errorf("the database takes an empty subject: %+v", u)
	}
	long := External{Issuer: issuer, Subject: strings.Repeat("x", 255), Name: "ann", Create: true}
	if _, u, err := a.SignInExternal(t.Context(), long, Client{}); err != nil || u.Username != "ann" {
		t.Errorf("the longest subject: %v %v", u, err)
	}
}

// TestAProviderEndsItsSessions: a provider can end one of its own sign-ins, or all sign-ins of an identity, but no
// others. This also works if the session is in memory and is not read from the database again.
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
