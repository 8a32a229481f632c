package changes_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestAHintCostsOneQueryForOneRow(t *testing.T) {
	h, id := newHarness(t, storetest.Open(t), changes.Options{Poll: never}, zap.NewNop())
	wait.Until(t, "the first reading is over", func() bool { return h.db.count(&h.db.pages) == 1 })
	rows := h.db.count(&h.db.rows)
	storetest.Set(t, h.store, id, "memo = 'new'")
	h.feed.Refresh(id)
	h.await(id)
	if r, p, n := h.db.count(&h.db.routes), h.db.count(&h.db.pages), h.db.count(&h.db.rows)-rows; r != 1 || p != 1 || n != 1 {
		t.Errorf("%d queries by id, %d pages, %d rows", r, p, n)
	}
}

func TestWithoutAnyNotificationPollingFindsEveryChangeOnce(t *testing.T) {
	h, id := newHarness(t, storetest.Open(t), poll, zap.NewNop())
	ids := []workspace.ID{id, h.create(), h.create()}
	for n := range 20 {
		storetest.Set(t, h.store, ids[n%3], "memo = memo || 'x'")
		storetest.Set(t, h.store, ids[n%3], "phase = 'STANDBY', desired_state = 'STANDBY', memo = now()::text")
		h.await(ids[n%3])
	}
	before := h.db.count(&h.db.pages)
	wait.Until(t, "some more polls have passed", func() bool { return h.db.count(&h.db.pages) > before+10 })
	h.mu.Lock()
	defer h.mu.Unlock()
	for revision, n := range h.times {
		if n != 1 {
			t.Errorf("revision %d was passed on %d times", revision, n)
		}
	}
}

// TestATransactionThatCommitsLateIsNotMissed: a transaction takes a revision. Another transaction takes the next
// revision, and commits first. No notification arrives.
func TestATransactionThatCommitsLateIsNotMissed(t *testing.T) {
	h, early := newHarness(t, storetest.Open(t), poll, zap.NewNop())
	late := h.create()
	tx, err := storetest.Pool(t, h.store).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `UPDATE workspaces SET memo = 'late' WHERE id = $1`, string(late)); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, h.store, early, "memo = 'early'")
	h.await(early)
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	first, second := storetest.Row(t, h.store, late).Revision, storetest.Row(t, h.store, early).Revision
	if first >= second {
		t.Fatalf("the late one has revision %d, the other one %d: nothing was tested", first, second)
	}
	h.await(late)
}

// TestALongTransactionIsNotMissed: the feed finds the change of a transaction however long the transaction takes, even
// if no notification arrives.
func TestALongTransactionIsNotMissed(t *testing.T) {
	h, early := newHarness(t, storetest.Open(t), changes.Options{Poll: 5 * time.Millisecond, Window: 10 * time.Millisecond}, zap.NewNop())
	late := h.create()
	h.await(late)
	tx, err := storetest.Pool(t, h.store).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	var revision int64
	if err := tx.QueryRow(t.Context(), `UPDATE workspaces SET memo = 'late' WHERE id = $1 RETURNING revision`, string(late)).Scan(&revision); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, h.store, early, "memo = 'early'")
	h.await(early)
	pages := h.db.count(&h.db.pages)
	wait.Until(t, "the window is over many times", func() bool { return h.db.count(&h.db.pages) > pages+20 })
	if settled, _ := h.state(); settled >= revision {
		t.Errorf("revision %d is settled, and %d is not committed yet", settled, revision)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.await(late)
	wait.Until(t, "it is settled", func() bool { settled, _ := h.state(); return settled >= revision })
}

// TestConfirmed: everything committed before a confirmed moment was passed on. Nothing is confirmed while a transaction
// that may have changed something before the first reading is still open.
func TestConfirmed(t *testing.T) {
	s := storetest.Open(t)
	owner := storetest.AddUser(t, s)
	tx, err := storetest.Pool(t, s).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `UPDATE users SET username = 'other' WHERE id = $1`, owner); err != nil {
		t.Fatal(err)
	}
	var since, confirmed atomic.Pointer[clock.Moment]
	h, id := newHarness(t, s, poll, zap.NewNop(), func(f *changes.Feed) {
		f.OnConfirmed(func(from, at clock.Moment) {
			since.Store(&from)
			confirmed.Store(&at)
		})
	})
	pages := h.db.count(&h.db.pages)
	wait.Until(t, "several readings are over", func() bool { return h.db.count(&h.db.pages) > pages+10 })
	if at := confirmed.Load(); at != nil {
		t.Fatal("a moment is confirmed while an earlier transaction is open")
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		storetest.Set(t, h.store, id, fmt.Sprintf("memo = '%d'", i))
		want := storetest.Row(t, h.store, id).Revision
		committed := clock.Now()
		wait.Until(t, "a later moment is confirmed", func() bool { at := confirmed.Load(); return at != nil && committed.Before(*at) })
		if row, _ := h.row(id); row.Revision < want {
			t.Fatalf("revision %d was committed before a confirmed moment, %d was passed on", want, row.Revision)
		}
		if !since.Load().Before(*confirmed.Load()) {
			t.Fatal("nothing is confirmed")
		}
	}
}

func TestTheFloorFollowsAndNothingIsReadAgainForEver(t *testing.T) {
	h, _ := newHarness(t, storetest.Open(t), changes.Options{Poll: 5 * time.Millisecond, Window: 200 * time.Millisecond}, zap.NewNop())
	h.create()
	position, err := h.store.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "everything is settled", func() bool { settled, _ := h.state(); return settled == position.Revision })
	rows, pages := h.db.count(&h.db.rows), h.db.count(&h.db.pages)
	wait.Until(t, "some more polls have passed", func() bool { return h.db.count(&h.db.pages) > pages+10 })
	if n := h.db.count(&h.db.rows); n != rows {
		t.Errorf("%d rows are read although nothing changes", n-rows)
	}
}

// TestAReconnectFindsWhatWasMissed cuts the connection for notifications, so that changes made meanwhile cause none.
func TestAReconnectFindsWhatWasMissed(t *testing.T) {
	h, id := newHarness(t, storetest.Open(t), changes.Options{Poll: never}, zap.NewNop())
	connections := h.listen()
	for n := range 5 {
		storetest.Exec(t, h.store, `WITH cut AS MATERIALIZED (
				SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN|^-- ping'
			) UPDATE workspaces SET memo = $2 || (SELECT count(*) FROM cut) WHERE id = $1`, string(id), time.Now().String())
		h.await(id)
		wait.Until(t, "notifications arrive again", func() bool { return connections() >= n+2 })
	}
}

// TestAStormOfNotificationsIsJoined: hints that are not processed in time are merged, never lost, and there is one query at a
// time.
func TestAStormOfNotificationsIsJoined(t *testing.T) {
	h, id := newHarness(t, storetest.Open(t), changes.Options{Poll: never}, zap.NewNop())
	ids := []workspace.ID{id}
	for range 99 {
		ids = append(ids, h.create())
	}
	wait.Until(t, "the first reading is over", func() bool { return h.db.count(&h.db.pages) == 1 })
	slow := make(chan struct{})
	h.db.do(func() { h.db.slow = slow })
	h.feed.Refresh(id)
	wait.Until(t, "a query is on its way", func() bool { return h.db.count(&h.db.asking) == 1 })
	storetest.Exec(t, h.store, `UPDATE workspaces SET memo = 'storm'`)
	for range 1000 {
		h.feed.Refresh(ids...)
	}
	h.feed.RefreshAll()
	h.db.do(func() { h.db.slow = nil })
	close(slow)
	for _, id := range ids {
		h.await(id)
	}
	if n := h.db.count(&h.db.ids); n > 2*len(ids)+1 {
		t.Errorf("%d rows were asked for by 100,000 hints for 100 workspaces", n)
	}
	if n := h.db.count(&h.db.mostAtOnce); n != 1 {
		t.Errorf("%d queries at a time", n)
	}
}

// TestMoreHintsThanMayWaitBecomeOneReading: if too many hints are waiting, the feed drops them and reads everything
// above the floor instead.
func TestMoreHintsThanMayWaitBecomeOneReading(t *testing.T) {
	h, id := newHarness(t, storetest.Open(t), changes.Options{Poll: never}, zap.NewNop())
	slow := make(chan struct{})
	h.db.do(func() { h.db.slow = slow })
	h.feed.Refresh(id)
	wait.Until(t, "a query is on its way", func() bool { return h.db.count(&h.db.asking) == 1 })
	var unknown []workspace.ID
	for range 20_000 {
		unknown = append(unknown, workspace.ID(uuid.NewString()))
	}
	storetest.Set(t, h.store, id, "memo = 'new'")
	h.feed.Refresh(unknown...)
	h.feed.Refresh(id)
	h.db.do(func() { h.db.slow = nil })
	close(slow)
	h.await(id)
	if n := h.db.count(&h.db.ids); n > 2 {
		t.Errorf("%d rows were asked for by name", n)
	}
}

func TestAnOutageIsLoggedOnceAndNothingIsLost(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	h, id := newHarness(t, storetest.Open(t), poll, zap.New(core))
	h.db.do(func() { h.db.failure = errors.New("away") })
	storetest.Set(t, h.store, id, "memo = 'new'")
	h.feed.Refresh(id)
	wait.Until(t, "the outage is logged", func() bool { return logs.Len() == 1 })
	second := h.create()
	h.feed.Refresh(second)
	h.db.do(func() { h.db.failure = nil })
	h.await(id)
	h.await(second)
	wait.Until(t, "its end is logged", func() bool { return logs.Len() == 2 })
}

// duplicate copies a folder with its owners and modes.
func duplicate(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copying: %v: %s", err, out)
	}
}

// TestAServerThatIsRestartedAndOneThatIsRestored: after a restart, the data is unchanged. A server restored from a backup has
// forgotten changes, and reuses their revisions.
func TestAServerThatIsRestartedAndOneThatIsRestored(t *testing.T) {
	dir := t.TempDir()
	begin := func() *server.PostgreSQL {
		t.Helper()
		pg, err := server.StartPostgreSQL(server.Durable(dir, "pg"))
		if err != nil {
			t.Fatal(err)
		}
		return pg
	}
	end := func(pg *server.PostgreSQL) {
		t.Helper()
		if err := pg.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	pg := begin()
	defer func() { _ = pg.Stop() }()
	if err := pg.CreateDatabase(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(pg.DSN("test"), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, id := newHarness(t, s, changes.Options{Poll: never}, zap.NewNop())
	connections := h.listen()

	end(pg)
	backup := filepath.Join(t.TempDir(), "backup")
	duplicate(t, filepath.Join(dir, "pg"), backup)
	pg = begin()
	wait.Until(t, "notifications arrive again", func() bool { return connections() == 2 })
	for range 5 {
		storetest.Set(t, s, id, "memo = 'to be forgotten', phase = 'STANDBY', desired_state = 'STANDBY'")
		storetest.Set(t, s, id, "memo = 'again', phase = 'ARCHIVED', desired_state = 'STANDBY'")
	}
	h.await(id)
	if _, resets := h.state(); resets != 0 {
		t.Errorf("a restart counts as another database")
	}
	forgotten, _ := h.row(id)

	end(pg)
	if err := os.RemoveAll(filepath.Join(dir, "pg")); err != nil {
		t.Fatal(err)
	}
	duplicate(t, backup, filepath.Join(dir, "pg"))
	pg = begin()
	wait.Until(t, "the feed has noticed", func() bool { _, resets := h.state(); return resets == 1 })
	h.await(id)
	if row, _ := h.row(id); row.Revision >= forgotten.Revision || row.Desired == workspace.DesiredStandby {
		t.Errorf("after the backup was restored the subscriber has %+v", row)
	}
}

// breaking is a subscriber that panics because of one workspace, while holding a lock.
type breaking struct {
	*recorder
	id    atomic.Pointer[workspace.ID]
	calls atomic.Int32
}

func (b *breaking) Changed(rows []store.Route, settled int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, row := range rows {
		if broken := b.id.Load(); broken != nil && row.ID == *broken {
			b.calls.Add(1)
			panic("injected")
		}
		b.rows[row.ID] = row
	}
	b.settled = settled
}

func TestARowThatASubscriberPanicsAboutConcernsItAlone(t *testing.T) {
	core, logs := observer.New(zap.ErrorLevel)
	b := &breaking{recorder: newRecorder()}
	h, id := newHarness(t, storetest.Open(t), poll, zap.New(core), func(f *changes.Feed) { f.Subscribe(b) })
	others := []workspace.ID{h.create(), h.create()}
	for _, other := range others {
		h.await(other)
	}
	b.id.Store(&id)
	// One transaction, so that they are passed on together.
	ids := append(others, id)
	storetest.Exec(t, h.store, "UPDATE workspaces SET memo = 'together' WHERE id = ANY ($1::uuid[])", ids)
	for _, each := range ids {
		h.await(each) // the other subscriber has all of them
	}
	wait.Until(t, "the one that panics has the others", func() bool {
		return !slices.ContainsFunc(others, func(other workspace.ID) bool {
			row, _ := b.row(other)
			return row.Revision < storetest.Row(t, h.store, other).Revision
		})
	})
	if row, _ := b.row(id); row.Revision == storetest.Row(t, h.store, id).Revision {
		t.Error("it has the row that it panics about")
	}
	if found := logs.FilterField(zap.String("workspace", string(id))).All(); len(found) != 1 || found[0].ContextMap()["stack"] == nil {
		t.Errorf("logged %v", logs.All())
	}
	// The feed does not pass on the same row again, but it passes on the workspace's next change.
	calls, read := b.calls.Load(), h.db.count(&h.db.pages)
	wait.Until(t, "some more polls have passed", func() bool { return h.db.count(&h.db.pages) > read+10 })
	if now := b.calls.Load(); now != calls {
		t.Errorf("it panicked %d times more without a change", now-calls)
	}
	b.id.Store(nil)
	storetest.Set(t, h.store, id, "memo = 'mended'")
	wait.Until(t, "the row is taken over", func() bool {
		row, _ := b.row(id)
		return row.Revision == storetest.Row(t, h.store, id).Revision
	})
}
