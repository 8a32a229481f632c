package auth

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// TestAnAdministratorIsAlwaysLeft: several administrators take each other's rights away at the same moment, in both
// possible ways and through two processes. One administrator always remains, because the last change is refused. The
// session that it would have ended remains, too.
func TestAnAdministratorIsAlwaysLeft(t *testing.T) {
	seed.Each(t, func(t *testing.T, random *rand.Rand) {
		a := open(t, Options{})
		processes := []*Auth{a, New(a.store, Options{})}
		t.Cleanup(processes[1].Close)
		disabled, role := true, RoleUser
		changes := map[string]AccountChange{
			"disables": {Disabled: &disabled}, "demotes": {Role: &role}, "both": {Disabled: &disabled, Role: &role},
		}
		for round := range 30 {
			storetest.Exec(t, a.store, `DELETE FROM users`)
			n := 2 + random.IntN(3)
			var ids, tokens []string
			for i := range n {
				name := fmt.Sprint("admin", i)
				u, err := a.AddUser(t.Context(), name, password, RoleAdmin)
				if err != nil {
					t.Fatal(err)
				}
				ids, tokens = append(ids, u.ID), append(tokens, login(t, a, name))
			}
			// Each is the target of one change.
			var refused atomic.Int64
			var kept sync.Map
			var wg sync.WaitGroup
			begin := make(chan struct{})
			var said []string
			for i, target := range random.Perm(n) {
				what := []string{"disables", "demotes", "both"}[random.IntN(3)]
				said = append(said, fmt.Sprintf("%d %s %d", i, what, target))
				p := processes[random.IntN(2)]
				wg.Go(func() {
					<-begin
					switch _, err := p.ChangeAccount(t.Context(), ids[target], changes[what]); {
					case errors.Is(err, ErrLastAdministrator):
						refused.Add(1)
						kept.Store(target, true)
					case err != nil:
						t.Error(err)
					}
				})
			}
			close(begin)
			wg.Wait()
			left := storetest.Value[int](t, a.store, `SELECT count(*) FROM users WHERE role = 'admin' AND disabled_at IS NULL`)
			if left != 1 || refused.Load() != 1 {
				t.Fatalf("round %d: %d administrators are left, %d refused: %s", round, left, refused.Load(), strings.Join(said, ", "))
			}
			for i, token := range tokens {
				_, was := kept.Load(i)
				row := storetest.Value[bool](t, a.store, `SELECT role = 'admin' AND disabled_at IS NULL FROM users WHERE id = $1`, ids[i])
				sessions := storetest.Value[int](t, a.store, `SELECT count(*) FROM sessions WHERE user_id = $1`, ids[i])
				if row != was || (sessions == 1) != was {
					t.Errorf("round %d: %d was refused: %v, is an administrator: %v, has %d sessions", round, i, was, row, sessions)
				}
				if was {
					wantSession(t, a, "the last administrator", token, nil)
				}
			}
		}
	})
}

// TestTheLastAdministrator: only administrators who can sign in count for the rule that one must remain. The rule
// refuses a change as a whole.
func TestTheLastAdministrator(t *testing.T) {
	a := open(t, Options{})
	add := func(name, role string) User {
		t.Helper()
		u, err := a.AddUser(t.Context(), name, password, role)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	root, other, ann := add("root", RoleAdmin), add("other", RoleAdmin), add("ann", RoleUser)
	no, yes, user, admin, secret, limit := false, true, RoleUser, RoleAdmin, "another horse", 7
	for _, c := range []struct {
		what   string
		id     string
		change AccountChange
		want   error
	}{
		{"another one is there", other.ID, AccountChange{Disabled: &yes}, nil},
		{"the other one cannot sign in", root.ID, AccountChange{Role: &user}, ErrLastAdministrator},
		{"with all else", root.ID, AccountChange{Disabled: &yes, Password: &secret, MaxRunning: &limit}, ErrLastAdministrator},
		{"no administrator any more", other.ID, AccountChange{Role: &user}, nil},
		{"all else alone", root.ID, AccountChange{Disabled: &no, Role: &admin, MaxWorkspaces: &limit}, nil},
		{"a user", ann.ID, AccountChange{Disabled: &yes}, nil},
		{"a disabled administrator", ann.ID, AccountChange{Role: &admin}, nil},
		{"who cannot sign in", root.ID, AccountChange{Disabled: &yes}, ErrLastAdministrator},
		{"until enabled", ann.ID, AccountChange{Disabled: &no}, nil},
		{"then the first may go", root.ID, AccountChange{Disabled: &yes}, nil},
	} {
		if _, err := a.ChangeAccount(t.Context(), c.id, c.change); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.what, err, c.want)
		}
	}
	if err := a.SetDisabled(t.Context(), "ann", true); !errors.Is(err, ErrLastAdministrator) {
		t.Errorf("by name: %v", err)
	}
	login(t, a, "ann")
	if err := a.SetDisabled(t.Context(), "root", false); err != nil {
		t.Fatal(err)
	}
	login(t, a, "root") // with the password that was not changed
	if got, err := a.Account(t.Context(), root.ID); err != nil || got.MaxRunning != 0 || got.MaxWorkspaces != limit {
		t.Errorf("root is %+v, %v", got, err)
	}
}
