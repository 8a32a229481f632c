package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
)

// newer builds the program of these tests as it will be after one more migration. That program can also run as a
// coordinator. While it runs, today's release must not serve.
func newer(t *testing.T) (program string) {
	t.Helper()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	migrations := filepath.Join(root, "coordinator", "store", "postgres", "migrations")
	present, err := filepath.Glob(filepath.Join(migrations, "*.sql"))
	if err != nil || len(present) == 0 {
		t.Fatalf("%d migrations, %v", len(present), err)
	}
	next, dir := len(present)+1, t.TempDir()
	text, overlay, program := filepath.Join(dir, "next.sql"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "newer.test")
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(migrations, fmt.Sprintf("%03d_next.sql", next)): text}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(text, fmt.Appendf(nil, "SELECT require_release(1, %d);\n", next), 0o600), os.WriteFile(overlay, replaced, 0o600)); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./coordinator")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// While a process runs, a newer process makes the schema require newer processes. The old process ends its work within
// ten seconds, logs this once, and does not resume by itself. The newer process leads.
func TestAProcessThatBecomesTooOldEndsItsWork(t *testing.T) {
	t.Parallel()
	program := newer(t)
	o := options(t, devenv.PostgreSQL(t), "old")
	pool, err := pgxpool.New(t.Context(), o.Database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	core, logs := observer.New(zap.InfoLevel)
	old, err := New(o, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, old) })
	s := DefaultSettings()
	s.AdminPassword = adminPassword
	apply(t, old, s)
	if err := old.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitLeader(t, pool, "old")
	token, _, err := old.Auth.Login(t.Context(), AdminUser, adminPassword, auth.Client{})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := old.Auth.Grant(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	if older := old.Refused(); older != nil {
		t.Fatalf("before: %v", older)
	}

	next := o
	next.NodeID = "new"
	config, err := json.Marshal(next)
	if err != nil {
		t.Fatal(err)
	}
	startCommand(t, "new", exec.Command(program), coordinatorEnv+"="+string(config))
	began := time.Now()
	awaitLeader(t, pool, "new")
	wait.Until(t, "the old process sees that it is too old", func() bool { return old.Refused() != nil })
	t.Logf("seen after %s", time.Since(began))
	older := old.Refused()
	if older.Serve != older.Known+1 || older.Schema != older.Serve || !strings.Contains(older.Error(), "start a newer release") {
		t.Errorf("refused with %+v: %v", older, older)
	}
	ended := make(chan struct{})
	go func() { old.done.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(wait.Timeout):
		t.Error("components of the old process still run")
	}
	select {
	case <-grant.Ended():
	default:
		t.Error("what is open with a session has not ended")
	}
	if _, err := old.Auth.Grant(t.Context(), token); !errors.Is(err, older) {
		t.Errorf("a session in memory: %v", err)
	}
	if h := old.Health(); h.IsLeader || len(h.Problems) != 1 || h.Problems[0] != older.Error() {
		t.Errorf("its health is %+v", h)
	}
	if n := logs.FilterMessageSnippet("too old for the schema").Len(); n != 1 {
		t.Errorf("it was logged %d times", n)
	}

	// A reload still applies settings, but writes nothing to the database. Another start of the same process starts no
	// component.
	apply(t, old, s)
	s.AdminPassword = "another one"
	if err := old.Apply(t.Context(), s); !errors.Is(err, older) {
		t.Errorf("writing another password: %v", err)
	}
	if err := old.Start(t.Context()); err != nil || old.Refused() != older {
		t.Errorf("starting again: %v", err)
	}
	// Another start of the program is refused with the same reason.
	again, err := New(o, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, again) })
	var refused *postgres.OlderError
	if err := again.Start(t.Context()); !errors.As(err, &refused) || !refused.Serving {
		t.Errorf("another start: %v", err)
	}
}

// While the database cannot be asked, nothing is concluded.
func TestAnOutageMakesNoProcessTooOld(t *testing.T) {
	t.Parallel()
	c, err := New(options(t, "postgres://ann@127.0.0.1:1/nothing", "node"), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	stopped := false
	c.cancel = func() { stopped = true }
	if err := c.checkServing(t.Context()); err == nil || stopped || c.Refused() != nil {
		t.Errorf("%v, stopped %t, refused: %v", err, stopped, c.Refused())
	}
}
