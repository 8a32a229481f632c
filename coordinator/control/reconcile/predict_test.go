package reconcile_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/predict"
	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAWorkspaceRunsAheadOfItsOwnerAndSleepsWhenNobodyComes: from the prediction to the container, and back.
func TestAWorkspaceRunsAheadOfItsOwnerAndSleepsWhenNobodyComes(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.lead()
	ids := []workspace.ID{h.create(), h.create()}
	h.reach(ids[0], workspace.DesiredStandby, workspace.PhaseStandby)
	h.reach(ids[1], workspace.DesiredArchived, workspace.PhaseArchived)
	now := storetest.Value[time.Time](t, h.store, `SELECT now()`)
	storetest.Exec(t, h.store, `INSERT INTO arrivals (workspace_id, at)
		SELECT w.id, now() + interval '3 minutes' - make_interval(days => n) FROM workspaces w, generate_series(1, 28) AS n`)
	p := predict.New(predict.Options{Store: h.store, Start: h.service.StartAhead, Usage: usage.New(h.store.DB).Ahead, Log: zap.NewNop()})
	p.Apply(time.FixedZone("noon", 12*3600-int(now.Sub(now.Truncate(24*time.Hour)).Seconds())))
	go func() { _ = p.Run(t.Context()) }()
	for _, id := range ids {
		h.settles(id, workspace.PhaseRunning)
	}

	options, err := redis.ParseURL(devenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	sleeper := ttl.New(ttl.Options{Store: h.store, Expirer: h.service, Activity: activity.NewLog(client, ""), Log: zap.NewNop()},
		ttl.Settings{Interval: 100 * time.Millisecond, Standby: time.Second, Archive: time.Hour})
	go func() { _ = sleeper.Run(t.Context(), h.fence) }()
	storetest.Exec(t, h.store, `UPDATE workspaces SET ahead_until = now() + interval '1 second'`)
	for _, id := range ids {
		h.settles(id, workspace.PhaseStandby)
	}
	a, err := usage.New(h.store.DB).Ahead(t.Context(), now.AddDate(0, 0, -2), now.AddDate(0, 0, 2), "")
	if err != nil || a.Started != 2 || a.Opened != 0 || a.Waiting != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
