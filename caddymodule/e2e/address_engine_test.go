package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestRestartBesideAnotherEngine: when a process starts, an engine other than the recorded one answers. The process
// does not use the addresses in the database, because at these addresses that engine may run another installation's
// containers. Once the engine is accepted, the process uses them.
func TestRestartBesideAnotherEngine(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	id := me.create(t, "here").ID
	base := byPath.base(in, id)
	secretly := program.Clone()
	secretly.Set("Secret", "before")
	wait.For(t, "the workspace answers", func() error {
		if res, body := me.get(t, base+"seen", secretly); body != id+"\nbefore\n" {
			return fmt.Errorf("%s %s", res.Status, body)
		}
		return nil
	})
	in.kill()
	db, err := pgx.Connect(t.Context(), in.env1("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.Background())
	if tag, err := db.Exec(t.Context(), "UPDATE system_identity SET identity = 'another engine' WHERE resource = 'backend'"); err != nil || tag.RowsAffected() != 1 {
		t.Fatal(tag, err)
	}
	in.start(t)
	me = in.admin(t)
	for _, kind := range []http.Header{navigation, program} {
		header := kind.Clone()
		header.Set("Secret", "to a stranger")
		ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"seen", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := me.http.Do(req)
		if err == nil {
			if body := text(t, res); res.StatusCode == http.StatusOK && strings.HasPrefix(body, id) {
				t.Errorf("the address was used beside another engine: %s", body)
			}
		}
		cancel()
	}
	wait.For(t, "the engine is accepted", func() error {
		if out, err := in.command(t, "codehub", "accept", "backend", "--yes", "--config", in.config); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	secretly.Set("Secret", "after")
	wait.For(t, "the workspace answers again", func() error {
		if res, body := me.get(t, base+"seen", secretly); res.StatusCode != http.StatusOK || !strings.HasPrefix(body, id) {
			return fmt.Errorf("%s %s", res.Status, body)
		} else if strings.Contains(body, "stranger") {
			t.Fatalf("the container has seen a request of the time beside another engine: %s", body)
		}
		return nil
	})
}

// command runs a command of the program.
func (in *installation) command(t testing.TB, args ...string) (output string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), caddyProgram(t), args...)
	cmd.Env = in.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}
