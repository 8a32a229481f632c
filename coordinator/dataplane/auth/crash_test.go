package auth

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestSigningInAfterTheDatabaseWasKilled: the database of `make run` keeps everything that it has confirmed, even if it
// is killed between two checkpoints, which are minutes apart. The ids of the audit's entries do not repeat.
func TestSigningInAfterTheDatabaseWasKilled(t *testing.T) {
	s := server.Durable(t.TempDir(), "postgresql")
	start := func() (*server.PostgreSQL, *Auth) {
		pg, err := server.StartPostgreSQL(s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = pg.Stop() })
		if err := pg.CreateDatabase(t.Context(), "codehub"); err != nil {
			t.Fatal(err)
		}
		return pg, openAt(t, pg.DSN("codehub"), Options{})
	}
	pg, a := start()
	addUser(t, a, "ann")
	var tokens []string
	for range 3 {
		tokens = append(tokens, login(t, a, "ann"))
	}
	text, err := os.ReadFile(filepath.Join(s.Dir, "data", "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	pid, err := strconv.Atoi(string(first))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the database has ended", pg.Exited)

	_, a = start()
	for range failuresPerAccount + 1 {
		login(t, a, "ann")
	}
	for _, token := range tokens {
		wantSession(t, a, "of before", token, nil)
	}
}
