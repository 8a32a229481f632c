package verify_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestVerifyAndAdopt checks that verify names a workspace that the database does not know, and that adopt adds it.
// Verify also names lost or doubtful files.
func TestVerifyAndAdopt(t *testing.T) {
	in := commandtest.NewInstallation(t)
	const lost, known workspace.ID = "11111111-0000-4000-8000-000000000000", "22222222-0000-4000-8000-000000000000"
	first := in.Archive(lost)
	in.Exec(`INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, archive_key)
		SELECT $1, id, 'thesis', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED', $2 FROM users`, string(known), in.Archive(known))
	type line struct{ Check, Level, Text, Remedy, Workspace_ID, Archive string }
	verify := func(args ...string) (commandtest.Outcome, map[string]line) {
		t.Helper()
		o := in.Run("", append([]string{"verify", "--json"}, args...)...)
		found := make(map[string]line)
		for text := range strings.Lines(o.Stdout) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			found[l.Check+l.Workspace_ID] = l
		}
		return o, found
	}
	o, found := verify()
	for check, level := range map[string]string{
		"database": "ok", "redis": "problem", "bucket": "ok", "backend": "ok", "summary": "ok", "workspace" + string(lost): "problem",
	} {
		if found[check].Level != level {
			t.Errorf("%s: %+v, want %s", check, found[check], level)
		}
	}
	if len(found) != 7 || o.Code != 1 || !strings.Contains(o.Stderr, "2 problems found") || found["workspace"+string(lost)].Archive != first {
		t.Errorf("exit code %d, %s, %+v", o.Code, o.Stderr, found)
	}

	adopt := []string{"workspace", "adopt", string(lost), "--owner"}
	in.Run("", adopt[:3]...).Want(t, 2, "whose is it?")
	in.Run("", append(adopt, "bob")...).Want(t, 1, `there is no user "bob"`)
	in.Run("", append(adopt, "ann", "--from-archive", lost.ArchiveKey("33333333-0000-4000-8000-000000000000"))...).Want(t, 1, "no such archive")
	in.Run("", append(adopt, "Ann", "--name", "found again")...).Want(t, 0, "found again belongs to Ann now, with the files of "+first)
	in.Run("", append(adopt, "ann")...).Want(t, 1, "the database has this workspace")
	in.Run("", "workspace", "adopt", "44444444-0000-4000-8000-000000000000", "--owner", "ann").Want(t, 1, "there is no volume")
	if got := in.Value(`SELECT phase || ' ' || archive_key || ' ' || (created_at < now() - interval '1 microsecond') FROM workspaces WHERE id = $1`, string(lost)); got != "ARCHIVED "+first+" true" {
		t.Errorf("adopted as %s", got)
	}

	// With --read, verify finds an archive that is newer than the one in the database, and whose content is not a home.
	newer := in.Archive(known)
	o, found = verify("--read")
	if l := found["workspace"+string(known)]; o.Code != 1 || l.Level != "problem" || found["summary"].Level != "ok" {
		t.Errorf("%+v, %s", found, o.Stderr)
	}
	plain := in.Run("", "verify")
	for _, part := range []string{"problem  redis", "ok       bucket", "→ check the setting redis", newer} {
		if !strings.Contains(plain.Stdout, part) {
			t.Errorf("printed %q without %q", plain.Stdout, part)
		}
	}
}
