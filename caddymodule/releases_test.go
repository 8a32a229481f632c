package codehub

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/coordinator/devenv/release"
)

// TestCaddyfilesOfOlderReleases checks that this release accepts the example configuration of each earlier release.
// Each removed setting in it causes a warning with the remedy; for the line, see TestRemovedSettings.
func TestCaddyfilesOfOlderReleases(t *testing.T) {
	timeouts := []string{
		"timeouts archiving", "timeouts create_empty_archive", "timeouts deleting", "timeouts provisioning",
		"timeouts restoring", "timeouts stopping",
	}
	gone := map[string][]string{
		"89186bf": timeouts,
		"0be5b23": append([]string{
			"coordinator gc_max_share", "coordinator gc_upload_expiry", "coordinator history_retention",
			"coordinator max_pulls", "coordinator operation_limit", "coordinator stable_after",
			"coordinator sweep_interval", "coordinator wait_limit", "docker publish_ports",
			"limits max_held_per_user", "work cpu",
		}, timeouts...),
		"0.1.0": timeouts,
	}
	now := exampleOptions(t)
	for _, past := range release.All {
		t.Run(past.String(), func(t *testing.T) {
			t.Setenv("DATABASE_URL", "postgres://codehub@db.example/codehub")
			t.Setenv("REDIS_URL", "redis://redis.example:6379/0")
			text := string(past.File(t, "Caddyfile.example"))
			config := new(caddy.Config)
			if err := json.Unmarshal([]byte(adapt(t, text)), config); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(config); err != nil {
				t.Error(err)
			}
			var missing []string
			for name := range optionsOf(text) {
				if option, ours := strings.CutPrefix(name, "app "); ours && now[name] == (exampleOption{}) {
					missing = append(missing, option)
					if settings.Removed()[option] == "" {
						t.Errorf("%s is gone without a word", option)
					}
				}
			}
			slices.Sort(missing)
			if want := slices.Sorted(slices.Values(gone[past.String()])); !slices.Equal(missing, want) {
				t.Errorf("gone are %q, want %q", missing, want)
			}
		})
	}
}
