package auth

import (
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) {
	// Tests hash with low costs; one test uses the real ones.
	current = params{memory: 64, passes: 1, threads: 1}
	wait.Main(m)
}

const password = "correct horse"

func openAt(t testing.TB, dsn string, o Options) *Auth {
	t.Helper()
	st, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := New(accounts.New(st.DB), o)
	t.Cleanup(a.Close)
	return a
}

func open(t testing.TB, o Options) *Auth {
	t.Helper()
	return openAt(t, storetest.Migrated(t), o)
}

func addUser(t testing.TB, a *Auth, name string) User {
	t.Helper()
	u, err := a.AddUser(t.Context(), name, password, RoleUser)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func login(t testing.TB, a *Auth, name string) string {
	t.Helper()
	token, _, err := a.Login(t.Context(), name, password, Client{})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func wantSession(t testing.TB, a *Auth, what, token string, want error) {
	t.Helper()
	if _, err := a.Session(t.Context(), token); !errors.Is(err, want) {
		t.Errorf("%s: Session = %v, want %v", what, err, want)
	}
}

func addWorkspace(t testing.TB, a *Auth, owner User) workspace.ID {
	t.Helper()
	id := workspace.ID(uuid.NewString())
	if _, _, err := store.New(a.store.DB).Create(t.Context(), workspace.Workspace{
		ID: id, OwnerID: owner.ID, Name: "w", InstanceBackend: "docker", StorageBackend: "docker",
	}, "api", store.Limits{}); err != nil {
		t.Fatal(err)
	}
	return id
}

func TestLoginAndLogout(t *testing.T) {
	a := open(t, Options{})
	ann := addUser(t, a, "Ann")
	token, u, err := a.Login(t.Context(), " ann ", password, Client{})
	if err != nil || u != ann || u.Username != "Ann" || u.Admin() {
		t.Fatalf("Login = %+v, %v", u, err)
	}
	if got, err := a.Session(t.Context(), token); err != nil || got != ann {
		t.Errorf("Session = %+v, %v", got, err)
	}
	other := login(t, a, "ann")
	if other == token {
		t.Error("two sessions share a token")
	}
	if err := a.Logout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	wantSession(t, a, "after logout", token, ErrNoSession)
	wantSession(t, a, "the other session", other, nil)
	for _, junk := range []string{"", "x", token + "x", strings.Repeat("A", tokenLength)} {
		wantSession(t, a, "junk", junk, ErrNoSession)
		if err := a.Logout(t.Context(), junk); err != nil {
			t.Errorf("Logout(%q) = %v", junk, err)
		}
	}
}

func TestLoginRefuses(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	addUser(t, a, "gone")
	if err := a.SetDisabled(t.Context(), "gone", true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.store.AddUser(t.Context(), "outside", "", RoleUser); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.store.AddUser(t.Context(), "broken", "$argon2id$nonsense", RoleUser); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", MaxPassword)
	if _, err := a.AddUser(t.Context(), "long", long, RoleUser); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{
		{"ann", "wrong horse"}, {"ann", ""}, {"ann", password + "x"}, {"nobody", password}, {"gone", password},
		{"outside", ""}, {"outside", password}, {"broken", password}, {"", ""}, {"a\x00", password}, {"\xff", password},
		{"long", long + "x"}, {"ann", strings.Repeat("x", 1<<20)},
	} {
		if token, _, err := a.Login(t.Context(), c[0], c[1], Client{}); !errors.Is(err, ErrBadCredentials) || token != "" {
			t.Errorf("Login(%.20q, %.20q) = %q, %v", c[0], c[1], token, err)
		}
	}
	if _, _, err := a.Login(t.Context(), "long", long, Client{}); err != nil {
		t.Errorf("the longest password: %v", err)
	}
	if err := a.SetDisabled(t.Context(), "gone", false); err != nil {
		t.Fatal(err)
	}
	login(t, a, "gone")
}

// TestNoSessionForAnOutdatedPassword: if the password changes or the user is disabled after the password was checked,
// and before the session starts, no session remains.
func TestNoSessionForAnOutdatedPassword(t *testing.T) {
	a := open(t, Options{})
	u := addUser(t, a, "ann")
	row, err := a.store.UserByName(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := a.SetPassword(t.Context(), "ann", "another horse"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.store.AddSession(t.Context(), u.ID, row.PasswordHash, accounts.TokenHash{1}, time.Hour, accounts.Origin{}); !errors.Is(err, postgres.ErrNotFound) {
		t.Errorf("AddSession = %v", err)
	}
}

func TestOnlyHashesAreStored(t *testing.T) {
	a := open(t, Options{})
	u := addUser(t, a, "ann")
	id := addWorkspace(t, a, u)
	token := login(t, a, "ann")
	ticket, err := a.Ticket(t.Context(), token, id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	dump := storetest.Value[string](t, a.store, `SELECT (SELECT string_agg(s::text, ' ') FROM sessions s) ||
		(SELECT string_agg(t::text, ' ') FROM tickets t) || (SELECT string_agg(u::text, ' ') FROM users u)`)
	for _, secret := range []string{token, ticket, password} {
		if strings.Contains(dump, secret) {
			t.Errorf("a secret is stored: %s", dump)
		}
	}
	hash := storetest.Value[[]byte](t, a.store, `SELECT token_hash FROM sessions`)
	if want := sha256.Sum256([]byte(token)); string(hash) != string(want[:]) {
		t.Error("what is stored is not the token's SHA-256")
	}
}

func TestPasswordChangesEndSessions(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	addUser(t, a, "bob")
	bob := login(t, a, "bob")
	if _, err := a.AddUser(t.Context(), "root", password, RoleAdmin); err != nil { // ann is not the last administrator
		t.Fatal(err)
	}
	ended := func(what string, end func() error) {
		t.Helper()
		token := login(t, a, "ann")
		if err := end(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		wantSession(t, a, what, token, ErrNoSession)
		wantSession(t, a, what+": another user", bob, nil)
	}
	ended("same password set again", func() error { return a.SetPassword(t.Context(), "ann", password) })
	ended("another role", func() error { _, err := a.EnsureUser(t.Context(), "ann", password, RoleAdmin); return err })
	ended("disabled", func() error { return a.SetDisabled(t.Context(), "ann", true) })
	if err := a.SetDisabled(t.Context(), "ann", false); err != nil {
		t.Fatal(err)
	}
	ended("another password", func() error { return a.SetPassword(t.Context(), "ann", "another horse") })
}

func TestEnsureUser(t *testing.T) {
	a := open(t, Options{})
	ensure := func(password, role string, want bool) {
		t.Helper()
		if created, err := a.EnsureUser(t.Context(), "admin", password, role); created != want || err != nil {
			t.Fatalf("EnsureUser = %v, %v; want %v", created, err, want)
		}
		if _, u, err := a.Login(t.Context(), "admin", password, Client{}); err != nil || u.Role != role {
			t.Errorf("Login = %+v, %v", u, err)
		}
	}
	ensure("short", RoleAdmin, true)
	token, _, err := a.Login(t.Context(), "admin", "short", Client{})
	if err != nil {
		t.Fatal(err)
	}
	ensure("short", RoleAdmin, false)
	wantSession(t, a, "nothing changed", token, nil)
	ensure("other", RoleAdmin, false)
	if _, _, err := a.Login(t.Context(), "admin", "short", Client{}); !errors.Is(err, ErrBadCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if _, err := a.EnsureUser(t.Context(), "admin", "other", RoleUser); !errors.Is(err, ErrLastAdministrator) {
		t.Errorf("the last administrator: %v", err)
	}
	if _, err := a.AddUser(t.Context(), "root", password, RoleAdmin); err != nil {
		t.Fatal(err)
	}
	ensure("other", RoleUser, false)
	if _, err := a.EnsureUser(t.Context(), "admin", "", RoleAdmin); err == nil {
		t.Error("EnsureUser accepted an empty password")
	}

	var created sync.Map
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			is, err := a.EnsureUser(t.Context(), "raced", password, RoleAdmin)
			if err != nil {
				t.Error(err)
			}
			if is {
				created.Store(i, true)
			}
		})
	}
	wg.Wait()
	n := 0
	created.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d of 8 created the user", n)
	}
}

func TestUsers(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "bob")
	addUser(t, a, "Ann")
	if _, err := a.AddUser(t.Context(), "ANN", password, RoleUser); !errors.Is(err, ErrUserExists) {
		t.Errorf("a name twice: %v", err)
	}
	if err := a.SetDisabled(t.Context(), "bob", true); err != nil {
		t.Fatal(err)
	}
	list, err := a.AllAccounts(t.Context())
	if err != nil || len(list) != 2 || list[0].Username != "Ann" || list[0].Disabled || !list[1].Disabled || list[1].CreatedAt.IsZero() {
		t.Errorf("Users = %+v, %v", list, err)
	}
	for field, err := range map[string]error{
		"username": func() error { _, err := a.AddUser(t.Context(), "two words", password, RoleUser); return err }(),
		"password": func() error { _, err := a.AddUser(t.Context(), "eve", "1234567", RoleUser); return err }(),
		"role":     func() error { _, err := a.AddUser(t.Context(), "eve", password, "root"); return err }(),
	} {
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != field || !strings.HasPrefix(err.Error(), field+" must ") {
			t.Errorf("%s: %v", field, err)
		}
	}
	var invalid *InvalidError
	if err := a.SetPassword(t.Context(), "ann", strings.Repeat("x", MaxPassword+1)); !errors.As(err, &invalid) {
		t.Errorf("a huge password: %v", err)
	}
	if _, err := a.AddUser(t.Context(), strings.Repeat("x", 256), password, RoleUser); !errors.As(err, &invalid) {
		t.Errorf("a long name: %v", err)
	}
	if err := a.SetPassword(t.Context(), "nobody", password); !errors.Is(err, ErrNoUser) {
		t.Errorf("SetPassword of no user: %v", err)
	}
	if err := a.SetDisabled(t.Context(), "a\x00b", true); !errors.Is(err, ErrNoUser) {
		t.Errorf("SetDisabled of no user: %v", err)
	}
}

func TestOptionsAreValidatedUnderTheSettingsName(t *testing.T) {
	for ttl, ok := range map[time.Duration]bool{0: true, DefaultSessionTTL: true, MinSessionTTL: true, MinSessionTTL - 1: false, -1: false} {
		err := Options{SessionTTL: ttl}.Validate()
		if ok != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), "session_ttl: ") {
			t.Errorf("%s: %v", ttl, err)
		}
	}
}

// browserSecret is the secret of the browser that requests tickets.
var browserSecret = NewBrowserSecret()

var browserHash, _ = BrowserHash(browserSecret)

// TestTicketsAreBoundToTheBrowserThatAsked: a stolen ticket, or one that an attacker sends to a victim, is worthless.
func TestTicketsAreBoundToTheBrowserThatAsked(t *testing.T) {
	a := open(t, Options{})
	id := addWorkspace(t, a, addUser(t, a, "ann"))
	token := login(t, a, "ann")
	for _, other := range []string{"", "x", browserHash, NewBrowserSecret()} {
		ticket, err := a.Ticket(t.Context(), token, id, browserHash)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Redeem(t.Context(), ticket, other, id); !errors.Is(err, ErrBadTicket) {
			t.Errorf("in a browser with the secret %q: %v", other, err)
		}
	}
	for _, wrong := range []string{"", "x", browserHash + "A", "%"} {
		if _, err := a.Ticket(t.Context(), token, id, wrong); !errors.Is(err, ErrBadTicket) {
			t.Errorf("for the browser %q: %v", wrong, err)
		}
	}
	storetest.Exec(t, a.store, `DELETE FROM tickets`)
	ticket, err := a.Ticket(t.Context(), token, id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Exec(t, a.store, `UPDATE tickets SET browser_hash = NULL`) // from the version before
	if _, err := a.Redeem(t.Context(), ticket, browserSecret, id); !errors.Is(err, ErrBadTicket) {
		t.Errorf("bound to no browser: %v", err)
	}
}

func TestTicketsAreOneTimeAndForOneWorkspace(t *testing.T) {
	a := open(t, Options{})
	ann, eve := addUser(t, a, "ann"), addUser(t, a, "eve")
	one, two, hers, deleted := addWorkspace(t, a, ann), addWorkspace(t, a, ann), addWorkspace(t, a, eve), addWorkspace(t, a, ann)
	if _, err := store.New(a.store.DB).Delete(t.Context(), store.Viewer{All: true}, deleted, false); err != nil {
		t.Fatal(err)
	}
	token := login(t, a, "ann")
	take := func() string {
		t.Helper()
		ticket, err := a.Ticket(t.Context(), token, one, browserHash)
		if err != nil {
			t.Fatal(err)
		}
		return ticket
	}
	refused := func(what, ticket string, id workspace.ID) {
		t.Helper()
		if ws, err := a.Redeem(t.Context(), ticket, browserSecret, id); !errors.Is(err, ErrBadTicket) || ws != "" {
			t.Errorf("%s: Redeem = %q, %v", what, ws, err)
		}
	}
	for what, id := range map[string]workspace.ID{"eve's": hers, "deleted": deleted, "unknown": workspace.ID(uuid.NewString()), "no id": "x"} {
		if _, err := a.Ticket(t.Context(), token, id, browserHash); !errors.Is(err, ErrNoWorkspace) {
			t.Errorf("%s: Ticket = %v", what, err)
		}
	}
	if _, err := a.Ticket(t.Context(), strings.Repeat("A", tokenLength), one, browserHash); !errors.Is(err, ErrNoSession) {
		t.Errorf("without a session: Ticket = %v", err)
	}

	ticket := take()
	ws, err := a.Redeem(t.Context(), ticket, browserSecret, one)
	if err != nil {
		t.Fatal(err)
	}
	refused("a second time", ticket, one)
	if u, err := a.WorkspaceSession(t.Context(), ws, one); err != nil || u.User != ann {
		t.Errorf("WorkspaceSession = %+v, %v", u, err)
	}
	for _, id := range []workspace.ID{two, hers, ""} {
		if _, err := a.WorkspaceSession(t.Context(), ws, id); !errors.Is(err, ErrNoSession) {
			t.Errorf("at %q: WorkspaceSession = %v", id, err)
		}
	}
	wantSession(t, a, "a workspace's session as the main one", ws, ErrNoSession)
	if _, err := a.WorkspaceSession(t.Context(), token, one); !errors.Is(err, ErrNoSession) {
		t.Errorf("the main session as a workspace's: %v", err)
	}
	if _, err := a.Ticket(t.Context(), ws, one, browserHash); !errors.Is(err, ErrNoSession) {
		t.Errorf("a ticket for a workspace's session: %v", err)
	}

	ticket = take()
	refused("at another workspace", ticket, two)
	refused("at its own, after that", ticket, one)
	refused("junk", "x", one)
	refused("the session's token", token, one)
	ticket = take()
	storetest.Exec(t, a.store, `UPDATE tickets SET expires_at = now() - interval '1 second'`)
	refused("too late", ticket, one)
	ticket = take()
	if err := a.Logout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	refused("after logout", ticket, one)
	if _, err := a.WorkspaceSession(t.Context(), ws, one); !errors.Is(err, ErrNoSession) {
		t.Errorf("after logout: WorkspaceSession = %v", err)
	}
}

func TestATicketIsRedeemedOnceHoweverManyTry(t *testing.T) {
	a := open(t, Options{})
	id := addWorkspace(t, a, addUser(t, a, "ann"))
	ticket, err := a.Ticket(t.Context(), login(t, a, "ann"), id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	won := make(chan string, 20)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ws, err := a.Redeem(t.Context(), ticket, browserSecret, id)
			if err == nil {
				won <- ws
			} else if !errors.Is(err, ErrBadTicket) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Errorf("redeemed %d times", len(won))
	}
}
