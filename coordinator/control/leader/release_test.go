package leader_test

import (
	"errors"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
)

// While this process leads, a migration may require leaders of a newer release (SPEC 12.14).
func TestALeaderThatBecomesTooOldGivesUp(t *testing.T) {
	for _, shards := range []int{1, 2} {
		cfg, conn := database(t)
		p := start(t, cfg, "a", func(o *leader.Options) {
			o.Shards, o.LeaseDuration = shards, leader.DefaultLeaseDuration
			o.Settings.RetryInterval = 10 * time.Millisecond
		})
		var terms []term
		for range shards {
			terms = append(terms, p.leads(t))
		}
		if got := p.Status().Refused; got != nil {
			t.Errorf("%d shards: refused while it leads: %v", shards, got)
		}
		if _, err := conn.Exec(t.Context(), `SELECT require_release(99, 1)`); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "its terms end", func() bool {
			for _, term := range terms {
				if term.ctx.Err() == nil || term.Lease() {
					return false
				}
			}
			return true
		})
		wait.Until(t, "it says that it is too old", func() bool {
			var older *postgres.OlderError
			return errors.As(p.Status().Refused, &older) && older.Lead == 99 && !p.Status().IsLeader
		})
		// This process holds no lock for which a newer process would have to wait.
		wait.Until(t, "it holds no lock", func() bool {
			var held int
			if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&held); err != nil {
				t.Fatal(err)
			}
			return held == 0
		})
	}
}
