package accounts

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// gerund is how errors begin: "reading candidates: ...".
var gerund = regexp.MustCompile(`^[a-z]+ing\b.*: `)

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	db, err := postgres.Open("postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, id, ctx := New(db), workspace.ID(uuid.NewString()), t.Context()
	for name, call := range map[string]func() error{
		"Overviews":   func() error { _, err := s.Overviews(ctx, "", "", 1); return err },
		"OverviewOf":  func() error { _, err := s.OverviewOf(ctx, string(id)); return err },
		"AddUser":     func() error { _, _, err := s.AddUser(ctx, "a", "", "user"); return err },
		"EditUser":    func() error { _, err := s.EditUser(ctx, string(id), UserChange{}); return err },
		"ReplaceHash": func() error { return s.ReplaceHash(ctx, string(id), "", "") },
		"Session":     func() error { _, err := s.Session(ctx, TokenHash{}); return err },
		"EndSession":  func() error { return s.EndSession(ctx, TokenHash{}) },
		"AddTicket":   func() error { return s.AddTicket(ctx, TokenHash{}, id, TokenHash{}, TokenHash{}, time.Minute) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded without a server", name)
		} else if !gerund.MatchString(err.Error()) {
			t.Errorf("%s: %q does not begin with what it was doing", name, err)
		}
	}
}
