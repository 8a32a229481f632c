package e2e

import (
	"encoding/json"
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// doctor runs `caddy codehub doctor`. It returns the level of each check, the worst one if it has several lines, and
// the output.
func (in *installation) doctor(t *testing.T) (levels map[string]string, printed string) {
	t.Helper()
	cmd := exec.Command(caddyProgram(t), "codehub", "doctor", "--json", "--config", in.config, "--adapter", "caddyfile")
	cmd.Env = in.env
	out, _ := cmd.Output() // exit code 1 says that there is a problem
	var lines []struct{ Check, Level string }
	if err := json.Unmarshal(out, &lines); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	rank := map[string]int{"ok": 1, "warning": 2, "problem": 3}
	levels = make(map[string]string)
	for _, l := range lines {
		if rank[l.Level] > rank[levels[l.Check]] {
			levels[l.Check] = l.Level
		}
	}
	return levels, string(out)
}

// TestDoctor: on a running installation the doctor finds that the firewall rules are in place, and that nothing is open
// from inside the workspaces' network. If the rules are missing, the doctor says so.
func TestDoctor(t *testing.T) {
	in := install(t, "LIMITS_MAX_RUNNING_GLOBAL=50")
	user := in.admin(t)
	ws := user.create(t, "examined")
	user.awaitPhase(t, ws.ID, "RUNNING")
	in.kill() // it would make the rules again
	levels, printed := in.doctor(t)
	for check, want := range map[string]string{
		"database": "ok", "identity": "ok", "object store": "ok", "engine": "ok", "images": "ok", "network": "ok", "egress": "ok", "isolation": "ok",
	} {
		if levels[check] != want {
			t.Errorf("%s: %s, want %s\n%s", check, levels[check], want, printed)
		}
	}
	// The Redis of the tests keeps nothing on disk.
	if levels["redis"] != "warning" {
		t.Errorf("redis: %s\n%s", levels["redis"], printed)
	}
	// The engine of the tests is on a file system without quotas, and no limit is set.
	for _, check := range []string{"disk", "home"} {
		if levels[check] != "warning" || !strings.Contains(printed, "mounted with pquota, then set docker "+check) {
			t.Errorf("%s: %s, want a warning that this engine has no limits\n%s", check, levels[check], printed)
		}
	}
	remove := exec.Command(caddyProgram(t), "codehub", "egress", "remove", "--yes", "--config", in.config, "--adapter", "caddyfile")
	remove.Env = in.env
	if out, err := remove.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if levels, printed := in.doctor(t); levels["egress"] != "problem" {
		t.Errorf("without rules, egress: %s\n%s", levels["egress"], printed)
	}
	// No workspace has to start first, because the leader makes the rules by itself.
	in.start(t)
	wait.For(t, "the rules stand again", func() error {
		levels, printed := in.doctor(t)
		if levels["egress"] != "ok" {
			return errors.New(printed)
		}
		return nil
	})
}
