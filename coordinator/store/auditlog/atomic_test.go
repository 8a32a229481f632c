package auditlog_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/workspace"
)

// changes is the database in which the cases make their changes.
type changes struct {
	t         *testing.T
	store     *store.Store
	accounts  *accounts.Store
	log       *auditlog.Log
	owner     accounts.User
	session   accounts.Session
	token     accounts.TokenHash
	workspace workspace.ID
}

func newChanges(t *testing.T) *changes {
	t.Helper()
	s := storetest.Open(t)
	c := &changes{t: t, store: s, accounts: accounts.New(s.DB), log: auditlog.New(s.DB, testlog.New(t))}
	c.owner = c.user("ann")
	c.token = hash()
	var err error
	if c.session, err = c.accounts.AddSession(t.Context(), c.owner.ID, "hash", c.token, time.Hour, accounts.Origin{}); err != nil {
		t.Fatal(err)
	}
	c.workspace = c.add()
	return c
}

func hash() (h accounts.TokenHash) {
	id, more := uuid.New(), uuid.New()
	copy(h[:], append(id[:], more[:]...))
	return h
}

func (c *changes) user(name string) accounts.User {
	c.t.Helper()
	u, _, err := c.accounts.AddUser(c.t.Context(), name, "hash", "user")
	if err != nil {
		c.t.Fatal(err)
	}
	return u
}

func (c *changes) add() workspace.ID {
	c.t.Helper()
	id := workspace.ID(uuid.NewString())
	if err := c.create(c.t.Context(), id); err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *changes) create(ctx context.Context, id workspace.ID) error {
	_, _, err := c.store.Create(ctx, workspace.Workspace{
		ID: id, OwnerID: c.owner.ID, Name: "notes", DesiredState: workspace.DesiredArchived,
		InstanceBackend: "docker", StorageBackend: "docker",
	}, "api", store.Limits{})
	return err
}

// viewer is the owner.
func (c *changes) viewer(through audit.Through) store.Viewer {
	return store.Viewer{UserID: c.owner.ID, Through: through}
}

// desire is a change of the desired state.
func (c *changes) desire(through audit.Through, d workspace.DesiredState) func(context.Context) error {
	return func(ctx context.Context) error {
		_, _, err := c.store.Update(ctx, c.viewer(through), c.workspace, store.Edit{Desired: &d}, store.Limits{})
		return err
	}
}

// edit is a change of a user.
func (c *changes) edit(change accounts.UserChange) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := c.accounts.EditUser(ctx, c.owner.ID, change)
		return err
	}
}

func (c *changes) exec(sql string, args ...any) {
	c.t.Helper()
	storetest.Exec(c.t, c.store, sql, args...)
}

// set changes the workspace as the controller would.
func (c *changes) set(columns string) func() {
	return func() { storetest.Set(c.t, c.store, c.workspace, columns) }
}

// change is a requested change, and its expected audit entry.
type change struct {
	name   string
	before func() // prepares the state, or nil
	do     func(context.Context) error
	action audit.Action
	// details are the details of the entry as JSON, "" for any.
	details string
	// again means that repeating the request makes another change. Otherwise the repeated request changes nothing.
	again bool
}

// all returns the changes, in an order in which each is possible.
func (c *changes) all() []change {
	ctx := c.t.Context()
	created, adopted, token := workspace.ID(uuid.NewString()), workspace.ID(uuid.NewString()), hash()
	var tokenID string
	on := func(b bool) *bool { return &b }
	text := func(s string) *string { return &s }
	revert := workspace.Revert{ID: uuid.NewString(), Key: "a/b/home.tar.zst"}
	return []change{
		{"create", nil, func(ctx context.Context) error { return c.create(ctx, created) },
			audit.WorkspaceCreate, `{"desired_state": "ARCHIVED"}`, false},
		{"rename", nil, func(ctx context.Context) error {
			_, _, err := c.store.Update(ctx, c.viewer("api"), c.workspace,
				store.Edit{Name: text("secret plans"), Memo: text("hunter2")}, store.Limits{})
			return err
		}, audit.WorkspaceEdit, `{"fields": ["name", "memo"]}`, true},
		{"open", nil, c.desire("gateway", workspace.DesiredRunning), audit.WorkspaceOpen, "null", false},
		{"sleep", nil, c.desire("api", workspace.DesiredStandby), audit.WorkspaceSleep, "null", false},
		{"start", nil, c.desire("api", workspace.DesiredRunning), audit.WorkspaceStart, "null", false},
		{"keep awake", nil, func(ctx context.Context) error {
			_, err := c.store.KeepAwake(ctx, c.viewer("api"), c.workspace, time.Hour)
			return err
		}, audit.WorkspaceKeepAwake, `{"seconds": 3600}`, true},
		{"archive", nil, c.desire("api", workspace.DesiredArchived), audit.WorkspaceArchive, "null", false},
		{"restore", c.set(`phase = 'ARCHIVED'`), func(ctx context.Context) error {
			_, _, err := c.store.Revert(ctx, c.viewer("api"), c.workspace, revert, store.Limits{})
			return err
		}, audit.WorkspaceRestore, `{"archive": "a/b/home.tar.zst"}`, false},
		{"recover", c.set(`phase = 'ERROR', error_reason = 'DataLost', revert = NULL`), func(ctx context.Context) error {
			_, _, err := c.store.Recover(ctx, store.Viewer{All: true, Through: "cli"}, c.workspace, workspace.ReasonDataLost,
				workspace.Recovery{ID: uuid.NewString(), Choice: workspace.RecoverEmpty}, store.Limits{})
			return err
		}, audit.WorkspaceRecover, `{"reason": "DataLost", "choice": "empty"}`, false},
		{"delete", c.set(`phase = 'ARCHIVED'`), func(ctx context.Context) error {
			_, err := c.store.Delete(ctx, store.Viewer{All: true, Through: "api"}, c.workspace, true)
			return err
		}, audit.WorkspaceDelete, `{"now": true}`, false},
		{"undelete", nil, func(ctx context.Context) error {
			_, _, err := c.store.Undelete(ctx, c.viewer("api"), c.workspace, store.Limits{})
			return err
		}, audit.WorkspaceUndelete, "null", false},
		{"adopt", nil, func(ctx context.Context) error {
			_, err := c.store.Adopt(ctx, workspace.Workspace{
				ID: adopted, Name: "found", Phase: workspace.PhasePending, InstanceBackend: "docker", StorageBackend: "docker",
			}, "ann", "cli")
			return err
		}, audit.WorkspaceCreate, "", false},

		{"add a user", nil, func(ctx context.Context) error {
			_, _, err := c.accounts.AddUser(ctx, "bob", "hash", "user")
			return err
		}, audit.UserCreate, `{"role": "user"}`, false},
		{"add an identity", nil, func(ctx context.Context) error {
			_, err := c.accounts.AddIdentity(ctx, "https://id.example", "1", "carol", "user")
			return err
		}, audit.UserCreate, `{"role": "user"}`, false},
		{"sign in", nil, func(ctx context.Context) error {
			_, err := c.accounts.AddSession(ctx, c.owner.ID, "hash", hash(), time.Hour, accounts.Origin{Client: "curl"})
			return err
		}, audit.UserSignIn, `{"client": "curl"}`, true},
		{"sign in through a provider", nil, func(ctx context.Context) error {
			_, err := c.accounts.AddExternalSession(ctx, c.owner.ID, "https://id.example", "7", hash(), time.Hour,
				accounts.Origin{Client: "curl"})
			return err
		}, audit.UserSignIn, `{"issuer": "https://id.example", "client": "curl"}`, true},
		{"be named", nil, func(ctx context.Context) error {
			return c.accounts.OpenNamedSession(ctx, c.owner.ID, token, time.Hour)
		}, audit.UserSignIn, `{"issuer": "caddy"}`, true},
		{"sign out", nil, func(ctx context.Context) error { return c.accounts.EndSession(ctx, token) },
			audit.UserSignOut, "null", false},
		{"sign out elsewhere", nil, func(ctx context.Context) error {
			_, err := c.accounts.EndSessionsOf(ctx, c.owner.ID, "", c.session.ID)
			return err
		}, audit.UserSignOut, "", false},
		{"sign out at the provider", func() {
			_, err := c.accounts.AddExternalSession(ctx, c.owner.ID, "https://id.example", "7", hash(), time.Hour,
				accounts.Origin{})
			if err != nil {
				c.t.Fatal(err)
			}
		}, func(ctx context.Context) error {
			_, err := c.accounts.EndExternalSessions(ctx, "https://id.example", "1", "7")
			return err
		}, audit.UserSignOut, `{"sessions": 1}`, false},
		{"change a role", nil, func(ctx context.Context) error { return c.accounts.SetRole(ctx, c.owner.ID, "admin") },
			audit.UserRole, `{"role": "admin"}`, false},
		{"make a token", nil, func(ctx context.Context) error {
			made, err := c.accounts.AddToken(ctx, c.owner.ID, c.session.ID, hash(), "deploy", []string{"read"}, time.Hour)
			tokenID = made.ID
			return err
		}, audit.TokenCreate, "", true},
		{"revoke it", nil, func(ctx context.Context) error {
			_, err := c.accounts.EndToken(ctx, c.owner.ID, tokenID)
			return err
		}, audit.TokenRevoke, "", false},
		{"limits", nil, c.edit(accounts.UserChange{MaxRunning: new(3)}), audit.UserLimits, `{"max_running": 3}`, true},
		{"another role", func() { c.user("eve"); c.exec(`UPDATE users SET role = 'admin' WHERE username = 'eve'`) },
			c.edit(accounts.UserChange{Role: text("user")}), audit.UserRole, `{"role": "user"}`, true},
		{"password", nil, c.edit(accounts.UserChange{PasswordHash: text("hash2")}), audit.UserPassword, "{}", true},
		{"all out", nil, c.edit(accounts.UserChange{SignOut: true}), audit.UserSignOut, "{}", true},
		{"unlock", func() {
			if _, _, err := c.accounts.CountSignIn(ctx, []accounts.SignInCounter{{Key: [32]byte{1}, Account: [32]byte{2}, Free: 5}}, accounts.SignInBlocks{}); err != nil {
				c.t.Fatal(err)
			}
		}, func(ctx context.Context) error {
			_, err := c.accounts.Unlock(ctx, c.owner.ID, [32]byte{2})
			return err
		}, audit.UserUnlock, `{"addresses": 1}`, false},
		{"disable", nil, c.edit(accounts.UserChange{Disabled: on(true)}), audit.UserDisable, "{}", true},
		{"enable", nil, c.edit(accounts.UserChange{Disabled: on(false)}), audit.UserEnable, "{}", true},

		{"scrub", nil, c.store.RequestScrub, audit.SystemScrub, `{"archives": 0}`, true},
		{"accept", func() {
			if err := c.store.FoundIdentity(ctx, store.ResourceBackend, "new"); err != nil {
				c.t.Fatal(err)
			}
		}, func(ctx context.Context) error { return c.store.AcceptIdentity(ctx, store.ResourceBackend, "new") },
			audit.SystemAccept, `{"resource": "backend", "expected": "", "accepted": "new"}`, true},
	}
}

// elsewhere are the actions that this test leaves out: they do not change the database, or a migration records them.
var elsewhere = []audit.Action{
	audit.WorkspaceExec, audit.SystemCollect, audit.SystemOrphans, audit.SystemEgress, audit.SystemThaw, audit.SystemMigrate, audit.APIRequest,
}

// fingerprint covers everything that a change may touch.
func (c *changes) fingerprint() string {
	c.t.Helper()
	return storetest.Value[string](c.t, c.store, `SELECT md5(
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY id), '') FROM workspaces t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY id), '') FROM workspace_history t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY id), '') FROM users t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY subject), '') FROM user_identities t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY id), '') FROM sessions t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY resource), '') FROM system_identity t) ||
		(SELECT COALESCE(string_agg(t::text, '' ORDER BY id), '') FROM audit_log t))`)
}

// crashes end the session's server process, as a crash does. One does so right before the entry is written, the other
// between the writing of the entry and the commit.
var crashes = []struct{ name, trigger string }{
	{"before the entry", `CREATE TRIGGER crash BEFORE INSERT ON audit_log FOR EACH ROW EXECUTE FUNCTION crash()`},
	{"before the commit", `CREATE CONSTRAINT TRIGGER crash AFTER INSERT ON audit_log DEFERRABLE INITIALLY DEFERRED
		FOR EACH ROW EXECUTE FUNCTION crash()`},
}

// TestNoChangeWithoutAnEntryAndNoEntryWithoutAChange: a session that is killed at either point leaves neither.
// A successful change leaves both, and a request that changes nothing leaves no entry.
func TestNoChangeWithoutAnEntryAndNoEntryWithoutAChange(t *testing.T) {
	c := newChanges(t)
	c.exec(`CREATE FUNCTION crash() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(60); RETURN NEW; END $$`)
	ctx := audit.With(t.Context(), audit.Actor{
		Kind: audit.User, ID: c.owner.ID, Through: audit.Page, Address: "192.0.2.7", Request: "r1",
	})
	entries := func() int { return storetest.Value[int](t, c.store, `SELECT count(*) FROM audit_log`) }
	proven := slices.Clone(elsewhere)
	for _, change := range c.all() {
		proven = append(proven, change.action)
		if change.before != nil {
			change.before()
		}
		was := c.fingerprint()
		for _, crash := range crashes {
			c.exec(crash.trigger)
			if err := change.do(ctx); err == nil {
				t.Errorf("%s: killed %s, it succeeds", change.name, crash.name)
			}
			c.exec(`DROP TRIGGER crash ON audit_log`)
			if c.fingerprint() != was {
				t.Errorf("%s: killed %s, it has changed something", change.name, crash.name)
			}
		}
		before := entries()
		if err := change.do(ctx); err != nil {
			t.Fatalf("%s: %v", change.name, err)
		}
		if got := entries() - before; got != 1 {
			t.Fatalf("%s: %d entries", change.name, got)
		}
		c.check(change)
		before = entries()
		if err := change.do(ctx); err != nil && !errors.Is(err, store.ErrNothingToAccept) && change.again {
			t.Errorf("%s again: %v", change.name, err)
		}
		if got := entries() - before; (got == 1) != change.again || got > 1 {
			t.Errorf("%s again: %d entries", change.name, got)
		}
	}
	for _, a := range audit.Actions() {
		if !slices.Contains(proven, a) {
			t.Errorf("no case proves %s", a)
		}
	}
}

// check compares the newest entry with the expected one.
func (c *changes) check(change change) {
	c.t.Helper()
	found, err := c.log.List(c.t.Context(), auditlog.Filter{}, 1, nil)
	if err != nil || len(found) != 1 {
		c.t.Fatalf("%s: %d entries, %v", change.name, len(found), err)
	}
	e := found[0]
	if e.Action != change.action || e.Outcome != audit.Done {
		c.t.Errorf("%s: %s %s, want %s", change.name, e.Action, e.Outcome, change.action)
	}
	if e.Actor.Name != "ann" || e.Actor.Address != "192.0.2.7" || e.Actor.Request != "r1" || e.Actor.ID != c.owner.ID {
		c.t.Errorf("%s: by %+v", change.name, e.Actor)
	}
	var want map[string]any
	if change.details == "" {
		want = e.Details
	} else if err := json.Unmarshal([]byte(change.details), &want); err != nil {
		c.t.Fatal(err)
	}
	if !reflect.DeepEqual(e.Details, want) {
		c.t.Errorf("%s: details %v, want %v", change.name, e.Details, want)
	}
	about := e.WorkspaceID != "" && e.WorkspaceName != "" && e.UserName == "ann"
	if kind := change.action[0]; kind == 'w' && !about || kind == 'u' && (e.UserID == "" || e.UserName == "") {
		c.t.Errorf("%s: about %+v", change.name, e)
	}
}
