package command_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

func TestCommandReport(t *testing.T) {
	emptyDatabase(t)
	commandtest.Run(t, strings.NewReader(testPassword), "user", "add", "ann").Want(t, 0)
	commandtest.Run(t, nil, "report").Want(t, 0, "all 0 workspaces")
	db, err := pgx.Connect(t.Context(), os.Getenv("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	for _, sql := range []string{
		`INSERT INTO workspaces (id, owner_user_id, name, desired_state, instance_backend, storage_backend, home_store_key)
			SELECT '` + uuid.NewString() + `', id, 'notes', 'ARCHIVED', 'docker', 'docker', 'v' FROM users`,
		`DELETE FROM usage_spans`,
		`INSERT INTO usage_days SELECT w.id, now()::date - 2, p.phase, w.owner_user_id, p.hours * 3600000000::bigint,
			p.hours * 3600000000::numeric * 2000000000
			FROM workspaces w, (VALUES ('RUNNING', 6), ('STANDBY', 8), ('ARCHIVED', 10)) AS p (phase, hours)`,
		`UPDATE usage_days SET work_micros = 3 * 3600000000::bigint, input_micros = 2 * 3600000000::bigint WHERE phase = 'RUNNING'`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	// The workspace was awake for 6 h at 0.1 per hour. It had 28 GBh on a volume at 0.73 per month, and 20 GBh in the
	// store at 0.365 per month. If it were always awake, that would be 24 h and 48 GBh on a volume.
	commandtest.Run(t, nil, "report", "--user=ANN", "--price-awake-hour=0.1", "--price-volume-gb-month=0.73",
		"--price-archive-gb-month=0.365").Want(t, 0, "6.0       8.0        10.0      0.0        28.0         20.0  0.64       2.45",
		"work 3.0, input 2.0, idle 1.0", "notes (ann)", "all 1 workspace", "Sleeping has saved 18.0 of 24.0 hours (75 %), and 1.81 of 2.45.")
	var report struct {
		Items []struct {
			Awake float64 `json:"awake_hours"`
		}
		Days []struct {
			By struct {
				Idle float64 `json:"idle_hours"`
			} `json:"awake_by"`
		}
	}
	out := commandtest.Run(t, nil, "report", "--json")
	if err := json.Unmarshal([]byte(out.Stdout), &report); err != nil || len(report.Items) != 1 || report.Items[0].Awake != 6 ||
		len(report.Days) != 1 || report.Days[0].By.Idle != 1 {
		t.Errorf("%v: %s", err, out.Stdout)
	}
	commandtest.Run(t, nil, "report", "--to=2020-01-01").Want(t, 0, "all 0 workspaces")
	for _, args := range []string{"--from=yesterday", "--price-awake-hour=-1"} {
		commandtest.Run(t, nil, "report", args).Want(t, 1)
	}
}
