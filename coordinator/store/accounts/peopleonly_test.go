package accounts

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// TestEveryChangeOfWhoSignsInIsForPeople calls every method of the store with an access token (SPEC 11). A new
// method needs a new row.
func TestEveryChangeOfWhoSignsInIsForPeople(t *testing.T) {
	db, err := postgres.Open("postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() // no server: a refused change sends no statement
	s := New(db)
	ctx := audit.With(t.Context(), audit.Actor{Kind: audit.User, ID: "ann", Through: audit.Token, TokenID: "t"})
	edit := func(c UserChange) func() error {
		return func() error { _, err := s.EditUser(ctx, "ann", c); return err }
	}
	text, yes, no := "x", true, false
	refused := map[string][]func() error{
		"AddUser":            {func() error { _, _, err := s.AddUser(ctx, "a", "", "user"); return err }},
		"AddIdentity":        {func() error { _, err := s.AddIdentity(ctx, "i", "s", "a", "user"); return err }},
		"SetRole":            {func() error { return s.SetRole(ctx, "a", "admin") }},
		"AddSession":         {func() error { _, err := s.AddSession(ctx, "a", "", TokenHash{}, 1, Origin{}); return err }},
		"AddExternalSession": {func() error { _, err := s.AddExternalSession(ctx, "a", "", "", TokenHash{}, 1, Origin{}); return err }},
		"OpenNamedSession":   {func() error { return s.OpenNamedSession(ctx, "a", TokenHash{}, 1) }},
		"EndSession":         {func() error { return s.EndSession(ctx, TokenHash{}) }},
		"EndSessionsOf": {
			func() error { _, err := s.EndSessionsOf(ctx, "a", "", ""); return err },
			func() error { _, err := s.EndSessionsOf(ctx, "a", "s", ""); return err },
		},
		"Unlock":              {func() error { _, err := s.Unlock(ctx, "a", [32]byte{}); return err }},
		"EndExternalSessions": {func() error { _, err := s.EndExternalSessions(ctx, "i", "s", ""); return err }},
		"AddTicket":           {func() error { return s.AddTicket(ctx, TokenHash{}, "w", TokenHash{}, TokenHash{}, time.Minute) }},
		"RedeemTicket":        {func() error { _, err := s.RedeemTicket(ctx, TokenHash{}, TokenHash{}, "w", TokenHash{}); return err }},
		"AddToken":            {func() error { _, err := s.AddToken(ctx, "a", "s", TokenHash{}, "n", nil, 1); return err }},
		"EditUser": {
			edit(UserChange{PasswordHash: &text}), edit(UserChange{Role: &text}), edit(UserChange{SignOut: true}),
			edit(UserChange{Disabled: &yes}), edit(UserChange{Disabled: &no}),
		},
	}
	any := map[string]string{ // why a token may
		"EndToken":       "a token may end its user's tokens, itself too",
		"ReplaceHash":    "the hash of the same password",
		"TouchSession":   "the time of the last use",
		"CountSignIn":    "slows sign-ins down",
		"ClearSignIn":    "after a sign-in, which a token cannot make",
		"EndedSessions":  "reads",
		"OverviewOf":     "reads",
		"Overviews":      "reads",
		"Session":        "reads",
		"SessionIssuer":  "reads",
		"SessionsOf":     "reads",
		"TokensOf":       "reads",
		"UserByIdentity": "reads",
		"UserByName":     "reads",
	}
	of, below := reflect.TypeOf(s), reflect.TypeOf(db)
	for i := range of.NumMethod() {
		name := of.Method(i).Name
		if _, promoted := below.MethodByName(name); promoted {
			continue
		}
		if any[name] == "" && refused[name] == nil {
			t.Errorf("%s has no row: may an access token do it?", name)
		}
	}
	for name, calls := range refused {
		for _, call := range calls {
			if err := call(); !errors.Is(err, ErrPeopleOnly) {
				t.Errorf("%s in the name of an access token: %v", name, err)
			}
		}
	}
	bounded, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.EditUser(bounded, "ann", UserChange{MaxRunning: new(1)}); err == nil || errors.Is(err, ErrPeopleOnly) {
		t.Errorf("limits: %v", err)
	}
}
