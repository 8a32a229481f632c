package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestDiskPressure: while the usage of the disk is above both marks, sleeping workspaces are archived. New workspaces
// wait and say why, until there is room. The test changes the marks instead of the usage, because a real engine reports
// its real disk.
func TestDiskPressure(t *testing.T) {
	t.Parallel()
	in := install(t)
	user := in.admin(t)
	asleep := user.create(t, "asleep")
	user.run(t, user.enter(t, asleep.ID), "head -c 5000000 /dev/urandom > large; echo done")
	user.setDesiredState(t, asleep.ID, "STANDBY")
	user.awaitPhase(t, asleep.ID, "STANDBY")
	in.kill()
	in.sql(t, `UPDATE workspaces SET phase_changed_at = now() - interval '5 minutes' WHERE id = $1`, asleep.ID)

	roomy := in.env
	in.env = append(slices.Clone(roomy), "CODEHUB_DISK_ARCHIVE_AT=0.01%", "CODEHUB_DISK_STOP_AT=0.02%", "CODEHUB_HOME_WARN=5MB")
	in.start(t)
	user = in.admin(t)
	user.awaitPhase(t, asleep.ID, "ARCHIVED")
	var fresh workspace
	user.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "fresh"}, http.StatusCreated, &fresh)
	wait.For(t, "the new workspace to wait for room", func() error {
		_, body := user.request(t, http.MethodGet, "/api/v1/workspaces/"+fresh.ID, nil)
		if !strings.Contains(body, `"reason":"DiskPressure"`) {
			return errors.New(body)
		}
		return nil
	})
	if in.hasVolume(t, fresh.ID) {
		t.Error("the new workspace has brought a home to the disk")
	}
	for path, want := range map[string]string{
		"/api/v1/workspaces/" + fresh.ID + "/explain":  "It waits for room on the disk of the homes",
		"/api/v1/workspaces/" + asleep.ID + "/history": "to make room: the disk of the homes was",
	} {
		if _, body := user.request(t, http.MethodGet, path, nil); !strings.Contains(body, want) {
			t.Errorf("%s does not say %q: %s", path, want, body)
		}
	}
	var archived struct {
		Home *struct {
			Bytes, Files int64
			Large        bool
		}
	}
	_, body := user.request(t, http.MethodGet, "/api/v1/workspaces/"+asleep.ID, nil)
	if err := json.Unmarshal([]byte(body), &archived); err != nil {
		t.Fatal(err)
	}
	if h := archived.Home; h == nil || h.Bytes < 5_000_000 || h.Bytes > 6_000_000 || h.Files < 1 || h.Large != (h.Bytes >= 5<<20) {
		t.Errorf("the archived home: %+v in %s", h, body)
	}
	if levels, printed := in.doctor(t); levels["space"] != "problem" || levels["owners"] != "ok" {
		t.Errorf("space %s, owners %s\n%s", levels["space"], levels["owners"], printed)
	}

	in.stop(t)
	in.env = append(slices.Clone(roomy), "CODEHUB_DISK_ARCHIVE_AT=off", "CODEHUB_DISK_STOP_AT=off")
	in.start(t)
	user = in.admin(t)
	user.awaitPhase(t, fresh.ID, "RUNNING")
}

// sql changes the installation's database directly, to reach a state that would otherwise take time.
func (in *installation) sql(t testing.TB, statement string, args ...any) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), in.env1("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(fmt.Errorf("%s: %w", statement, err))
	}
}
