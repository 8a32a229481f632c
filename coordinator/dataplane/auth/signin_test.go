package auth

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

// fail signs in with a wrong password, and returns for how long sign-ins are refused after that.
func fail(t testing.TB, a *Auth, name, address string) time.Duration {
	t.Helper()
	_, _, err := a.Login(t.Context(), name, "wrong", Client{Address: address})
	var throttled *ThrottledError
	switch {
	case errors.As(err, &throttled):
		return throttled.RetryAfter.Round(time.Second)
	case !errors.Is(err, ErrBadCredentials):
		t.Fatalf("signing in with a wrong password: %v", err)
	}
	return 0
}

func TestFailedSignInsAreThrottledInAllProcesses(t *testing.T) {
	dsn := devenv.PostgreSQL(t)
	here, there := openAt(t, dsn, Options{}), openAt(t, dsn, Options{})
	for _, a := range []*Auth{here, there} {
		a.sleep = func(context.Context, time.Duration) error { return nil } // for the address alone
	}
	addUser(t, here, "ann")
	const attacker, owner = "192.0.2.1", "192.0.2.2"
	for _, name := range []string{"ann", "nobody"} { // both behave alike
		for i := range failuresPerAccount {
			if wait := fail(t, []*Auth{here, there}[i%2], name, attacker); wait != 0 {
				t.Fatalf("%s: attempt %d is refused for %s", name, i+1, wait)
			}
		}
		for i, want := 0, firstBlock; i < 8; i, want = i+1, min(2*want, longestBlock) {
			if wait := fail(t, there, name, attacker); wait != want {
				t.Errorf("%s: block %d lasts %s, want %s", name, i, wait, want)
			}
			storetest.Exec(t, here.store, `UPDATE sign_in_failures SET blocked_until = now() WHERE blocked_until IS NOT NULL`)
			fail(t, here, name, attacker)
		}
	}
	fail(t, there, "ann", attacker)
	var throttled *ThrottledError
	if _, _, err := here.Login(t.Context(), "Ann ", password, Client{Address: attacker}); !errors.As(err, &throttled) {
		t.Errorf("the right password at a blocked address: %v", err)
	}
	if _, _, err := there.Login(t.Context(), "ann", password, Client{Address: owner}); err != nil {
		t.Errorf("the owner, elsewhere: %v", err)
	}
	storetest.Exec(t, here.store, `UPDATE sign_in_failures SET failed_at = now() - interval '61 minutes', blocked_until = NULL`)
	fail(t, here, "somebody", owner)
	if n := storetest.Value[int](t, here.store, `SELECT count(*)::int FROM sign_in_failures`); n != 2 {
		t.Errorf("%d counters are left, want the 2 of the last attempt", n)
	}
}

func TestASuccessClearsTheAccountAndNotTheAddress(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	const address = "192.0.2.1"
	for range 3 {
		for range failuresPerAccount - 1 {
			if wait := fail(t, a, "ann", address); wait != 0 {
				t.Fatalf("refused for %s", wait)
			}
		}
		if _, _, err := a.Login(t.Context(), "ann", password, Client{Address: address}); err != nil {
			t.Fatal(err)
		}
	}
	var slept []time.Duration
	a.sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
	for i := range failuresPerAddress - 3*(failuresPerAccount-1) {
		if len(slept) != 0 {
			t.Fatalf("after %d more it is slowed down", i)
		}
		if wait := fail(t, a, fmt.Sprint("user", i), address); wait != 0 {
			t.Fatalf("refused for %s", wait)
		}
	}
	if len(slept) != 1 || slept[0] != firstDelay {
		t.Errorf("at an address with %d failures it waits %v", failuresPerAddress, slept)
	}
}

// TestAnAddressAloneOnlySlowsDown: people in an office share an address. Wrong passwords of other people delay their
// sign-ins for a moment, but never lock them out, however many there are. A single account is still locked out there,
// and only there.
func TestAnAddressAloneOnlySlowsDown(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	addUser(t, a, "bob")
	var slept []time.Duration
	a.sleep = func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }
	const office = "203.0.113.7"
	for i := range 3 * failuresPerAddress {
		if wait := fail(t, a, fmt.Sprint("nobody", i), office); wait != 0 {
			t.Fatalf("the %dth is refused for %s", i+1, wait)
		}
	}
	for range failuresPerAccount {
		fail(t, a, "bob", office)
	}
	if wait := fail(t, a, "bob", office); wait != firstBlock {
		t.Errorf("the account with wrong passwords is refused for %s", wait)
	}
	if _, _, err := a.Login(t.Context(), "ann", password, Client{Address: office}); err != nil {
		t.Errorf("another one of the office: %v", err)
	}
	if last := slept[len(slept)-1]; last != longestDelay {
		t.Errorf("it waits %s", last)
	}
	if _, _, err := a.Login(t.Context(), "bob", password, Client{Address: "192.0.2.2"}); err != nil {
		t.Errorf("elsewhere: %v", err)
	}
	// If a client leaves while it waits, its attempt is taken back. A client that waits takes no place from others.
	a.sleep = func(context.Context, time.Duration) error {
		if a.pending.all != 0 || a.slowed.all != 1 {
			t.Errorf("%d are being checked and %d wait", a.pending.all, a.slowed.all)
		}
		return context.Canceled
	}
	const counted = `SELECT max(failures) FROM sign_in_failures WHERE account IS NULL`
	before := storetest.Value[int](t, a.store, counted)
	if _, _, err := a.Login(t.Context(), "ann", "wrong", Client{Address: office}); !errors.Is(err, context.Canceled) {
		t.Errorf("one who leaves: %v", err)
	}
	if after := storetest.Value[int](t, a.store, counted); after != before || a.pending.all != 0 || a.slowed.all != 0 {
		t.Errorf("%d failures became %d", before, after)
	}
	// An exempt network causes no delays. A single account is still locked out there.
	a.SetExempt([]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")})
	a.sleep = func(context.Context, time.Duration) error { t.Error("it is slowed down"); return nil }
	for i := range failuresPerAddress {
		fail(t, a, fmt.Sprint("somebody", i), office)
	}
	if wait := fail(t, a, "bob", office); wait == 0 {
		t.Error("the account is not refused in an exempt network")
	}
}

// TestUnlock: an administrator unlocks one account at every address.
func TestUnlock(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	addUser(t, a, "bob")
	at := []string{"192.0.2.1", "2001:db8::1", ""}
	for _, address := range at {
		for range failuresPerAccount {
			fail(t, a, "Ann ", address)
			fail(t, a, "bob", address)
		}
	}
	if err := a.UnlockByName(t.Context(), "ANN"); err != nil {
		t.Fatal(err)
	}
	for _, address := range at {
		var throttled *ThrottledError
		if _, _, err := a.Login(t.Context(), "ann", password, Client{Address: address}); err != nil {
			t.Errorf("ann at %q: %v", address, err)
		}
		if _, _, err := a.Login(t.Context(), "bob", password, Client{Address: address}); !errors.As(err, &throttled) {
			t.Errorf("bob at %q: %v", address, err)
		}
	}
	if err := a.UnlockByName(t.Context(), "nobody"); !errors.Is(err, ErrNoUser) {
		t.Errorf("nobody: %v", err)
	}
}

// TestFailuresOfTheServerAreNoWrongPasswords: a sign-in that fails for a reason other than the password does not count
// as a guess, however often it is tried. Earlier wrong passwords still count.
func TestFailuresOfTheServerAreNoWrongPasswords(t *testing.T) {
	const next = "another horse battery"
	signIn := func(a *Auth, from Client) error {
		_, _, err := a.Login(t.Context(), "ann", password, from)
		return err
	}
	for name, c := range map[string]struct {
		breaks, repairs string
		do              func(a *Auth, from Client) error
	}{
		"the user cannot be read": {
			`ALTER TABLE users RENAME TO users_away`, `ALTER TABLE users_away RENAME TO users`, signIn,
		},
		"the session cannot be written": {
			`ALTER TABLE sessions RENAME TO sessions_away`, `ALTER TABLE sessions_away RENAME TO sessions`, signIn,
		},
		"the audit cannot be written": {
			`ALTER TABLE audit_log ADD CONSTRAINT broken CHECK (false) NOT VALID`, `ALTER TABLE audit_log DROP CONSTRAINT broken`, signIn,
		},
		"the new password cannot be written": {
			`ALTER TABLE users ADD CONSTRAINT broken CHECK (false) NOT VALID`, `ALTER TABLE users DROP CONSTRAINT broken`,
			func(a *Auth, from Client) error {
				_, err := a.ChangePassword(t.Context(), "ann", password, next, from)
				return err
			},
		},
		"the client has gone while it waited": {`SELECT`, `SELECT`, func(a *Auth, from Client) error {
			ctx, cancel := context.WithCancel(t.Context())
			for range cap(a.hasher.turns) {
				a.hasher.turns <- struct{}{}
			}
			defer func() {
				for range cap(a.hasher.turns) {
					<-a.hasher.turns
				}
			}()
			defer cancel()
			tried := make(chan error)
			go func() { _, _, err := a.Login(ctx, "ann", password, from); tried <- err }()
			wait.Until(t, "the attempt is counted", func() bool {
				return storetest.Value[int](t, a.store, `SELECT COALESCE(max(failures), 0)::int FROM sign_in_failures`) == failuresPerAccount
			})
			cancel()
			return <-tried
		}},
	} {
		t.Run(name, func(t *testing.T) {
			a, from := open(t, Options{}), Client{Address: "192.0.2.1"}
			addUser(t, a, "ann")
			for range failuresPerAccount - 1 {
				fail(t, a, "ann", from.Address)
			}
			storetest.Exec(t, a.store, c.breaks)
			for range 2 * failuresPerAddress {
				var throttled *ThrottledError
				if err := c.do(a, from); err == nil || errors.Is(err, ErrBadCredentials) || errors.As(err, &throttled) {
					t.Fatalf("got %v", err)
				}
			}
			storetest.Exec(t, a.store, c.repairs)
			fail(t, a, "ann", from.Address)
			if wait := fail(t, a, "ann", from.Address); wait != firstBlock {
				t.Errorf("after the %dth wrong password it is refused for %s, want %s", failuresPerAccount, wait, firstBlock)
			}
			storetest.Exec(t, a.store, `UPDATE sign_in_failures SET blocked_until = now()`)
			if err := signIn(a, from); err != nil {
				t.Errorf("the right password: %v", err)
			}
		})
	}
}

func TestManyGuessesAtOnceAreNotOne(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	var mu sync.Mutex
	checked := 0
	for range 5 {
		var all sync.WaitGroup
		for range maxPendingPerAddress {
			all.Go(func() {
				_, _, err := a.Login(t.Context(), "ann", "wrong", Client{Address: "2001:db8::1"})
				if mu.Lock(); errors.Is(err, ErrBadCredentials) {
					checked++
				}
				mu.Unlock()
			})
		}
		all.Wait()
	}
	if checked != failuresPerAccount {
		t.Errorf("%d guesses were checked, want %d", checked, failuresPerAccount)
	}
	if wait := fail(t, a, "ann", "2001:db8::ffff"); wait != firstBlock {
		t.Errorf("another address of the same network is refused for %s", wait)
	}
	if wait := fail(t, a, "ann", "2001:db8:0:1::1"); wait != 0 {
		t.Errorf("another network is refused for %s", wait)
	}
}

// TestPendingSignInsAreBounded: a client that sends many sign-ins at once does not make others wait.
func TestPendingSignInsAreBounded(t *testing.T) {
	p := newPending(maxPending, maxPendingPerAddress)
	var leave []func()
	for i := range maxPending {
		address := fmt.Sprintf("192.0.2.%d", i/maxPendingPerAddress)
		l, err := p.enter(address)
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
		if i == maxPendingPerAddress {
			if _, err := p.enter("192.0.2.0"); err == nil {
				t.Error("one more from an address that has its share")
			}
		}
	}
	var throttled *ThrottledError
	if _, err := p.enter("192.0.2.200"); !errors.As(err, &throttled) {
		t.Errorf("one more than all: %v", err)
	}
	for _, l := range leave {
		l()
	}
	if p.all != 0 || len(p.byAddress) != 0 {
		t.Errorf("%d are left, %v", p.all, p.byAddress)
	}
}

func TestSessionsAreListedAndEnded(t *testing.T) {
	a := open(t, Options{CacheTTL: time.Minute})
	c := newClock()
	a.sessions.now = c.Now
	addUser(t, a, "ann")
	addUser(t, a, "bob")
	sign := func(name, address string) (string, Grant) {
		token, _, err := a.Login(t.Context(), name, password, Client{Address: address, Agent: "browser " + address})
		if err != nil {
			t.Fatal(err)
		}
		g, err := a.Grant(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		return token, g
	}
	token, here := sign("ann", "192.0.2.1")
	other, there := sign("ann", "192.0.2.2")
	third, _ := sign("ann", "192.0.2.3")
	bobs, bob := sign("bob", "192.0.2.4")
	storetest.Exec(t, a.store, `UPDATE sessions SET last_used_at = now() - interval '1 hour'`)
	c.Advance(2 * time.Minute)
	wantSession(t, a, "used", token, nil)
	a.sessions.checks.Wait()
	list, err := a.Sessions(t.Context(), here)
	if err != nil || len(list) != 3 {
		t.Fatalf("%v %v", list, err)
	}
	if s := list[0]; !s.Current || s.Address != "192.0.2.1" || s.Agent != "browser 192.0.2.1" || time.Since(s.LastUsedAt) > time.Minute {
		t.Errorf("the session in use: %+v", s)
	}
	if time.Since(list[1].LastUsedAt) < time.Minute || list[1].Current {
		t.Errorf("a session that is not used: %+v", list[1])
	}
	if err := a.EndSession(t.Context(), bob, there.Session()); !errors.Is(err, ErrNoSession) {
		t.Errorf("ending another user's session: %v", err)
	}
	if err := a.EndSession(t.Context(), here, there.Session()); err != nil {
		t.Error(err)
	}
	wantSession(t, a, "ended", other, ErrNoSession)
	wantSession(t, a, "not ended yet", third, nil)
	if err := a.EndSession(t.Context(), here, ""); err != nil {
		t.Error(err)
	}
	wantSession(t, a, "one of the others", third, ErrNoSession)
	wantSession(t, a, "the current one", token, nil)
	wantSession(t, a, "another user's", bobs, nil)
	if list, err := a.Sessions(t.Context(), here); err != nil || !slices.ContainsFunc(list, func(s OpenSession) bool { return s.Current }) || len(list) != 1 {
		t.Errorf("what is left: %v %v", list, err)
	}
}

func TestFailedSignInsAreInTheAudit(t *testing.T) {
	a := openAt(t, devenv.PostgreSQL(t), Options{})
	addUser(t, a, "ann")
	storetest.Exec(t, a.store, `DELETE FROM audit_log`)
	ctx := audit.With(t.Context(), audit.Actor{Kind: audit.Anonymous, Address: "192.0.2.1"})
	for _, name := range []string{"ann", "a password typed as a name"} {
		if _, _, err := a.Login(ctx, name, "wrong", Client{Address: "192.0.2.1"}); !errors.Is(err, ErrBadCredentials) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := a.SignInExternal(ctx, External{Issuer: "https://id.example", Subject: "1"}, Client{})
	if !errors.Is(err, ErrUnknownUser) {
		t.Error(err)
	}
	got := storetest.Value[string](t, a.store, `SELECT string_agg(concat_ws(' ', action, outcome, user_name, actor ->> 'kind',
		actor ->> 'name', actor ->> 'address'), '; ' ORDER BY id) FROM audit_log`)
	want := "user.sign_in bad-credentials ann anonymous 192.0.2.1; user.sign_in bad-credentials anonymous 192.0.2.1; " +
		"user.sign_in unknown-user provider https://id.example 192.0.2.1"
	if got != want {
		t.Errorf("the audit is %s, want %s", got, want)
	}
}
