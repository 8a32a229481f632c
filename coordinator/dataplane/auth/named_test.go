package auth

import (
	"errors"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/store/storetest"
)

func TestAUserWhomAnotherAuthenticationNames(t *testing.T) {
	a := open(t, Options{})
	ctx := t.Context()
	for _, name := range []string{"", "ann", "two words", strings.Repeat("x", 2000)} {
		_, err := a.Named(ctx, name, false)
		if !errors.Is(err, ErrNoSession) || errors.Is(err, ErrUnknownUser) != (name != "") {
			t.Errorf("%.20q: %v", name, err)
		}
	}
	ann, err := a.Named(ctx, "ann", true)
	if err != nil || ann.Username != "ann" || ann.Role != RoleUser {
		t.Fatalf("created: %v, %v", ann.User, err)
	}
	if _, _, err := a.Login(ctx, "ann", "", Client{}); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("a user without a password signs in: %v", err)
	}
	again, err := a.Named(ctx, "ANN", true)
	if err != nil || again.ID != ann.ID {
		t.Errorf("in other letters: %v, %v", again.User, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = a.Named(ctx, "ann", true) }); n != 0 {
		t.Errorf("%v allocations for a known name", n)
	}
	stream := attach(t, ann, nil)
	if err := a.SetDisabled(ctx, "ann", true); err != nil {
		t.Fatal(err)
	}
	a.Resync() // as after a lost connection; otherwise the notification does this
	stream.wait(t, "of a disabled user")
	a.sessions.checks.Wait()
	if _, err := a.Named(ctx, "ann", true); !errors.Is(err, ErrDisabled) || !errors.Is(err, ErrNoSession) {
		t.Errorf("disabled: %v", err)
	}
	if err := a.SetDisabled(ctx, "ann", false); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Named(ctx, "ann", false); err != nil {
		t.Errorf("enabled again: %v", err)
	}
	// An expired session is opened again, whether its row still exists or not.
	storetest.Exec(t, a.store, `UPDATE sessions SET expires_at = now() - interval '1 second'`)
	a.Resync()
	a.sessions.checks.Wait()
	if _, err := a.Named(ctx, "ann", false); err != nil {
		t.Errorf("after its time: %v", err)
	}
}
