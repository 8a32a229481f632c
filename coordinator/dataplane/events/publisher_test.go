package events_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWhatIsPublished: the channel names and payloads that other programs read are a contract.
func TestWhatIsPublished(t *testing.T) {
	in := newInstallation(t, devenv.Redis(t))
	id := in.create()
	p := in.process(quick)
	in.lead(p)
	expect := func(what string, want ...string) {
		t.Helper()
		wait.For(t, what, func() error {
			in.mu.Lock()
			defer in.mu.Unlock()
			for _, w := range want {
				if in.messages[w] == 0 {
					return fmt.Errorf("%s is not published; %v are", w, in.messages)
				}
			}
			for m := range in.messages {
				if !strings.Contains(strings.Join(want, "|"), m) {
					return fmt.Errorf("%s is published", m)
				}
			}
			clear(in.messages)
			return nil
		})
	}
	storetest.Set(t, in.store, id, "memo = 'new'")
	expect("an update", in.update(id))
	storetest.Set(t, in.store, id, "desired_state = 'RUNNING'")
	expect("a wake-up", in.update(id), "codehub:wake:ob "+string(id), "codehub:wake:wc "+string(id))
	storetest.Set(t, in.store, id, "phase = 'RUNNING'")
	expect("the end of the way up", in.update(id))
	storetest.Set(t, in.store, id, "desired_state = 'DELETED', deleted_at = now()")
	expect("a deletion", "codehub:wake:ob "+string(id), "codehub:wake:wc "+string(id),
		"codehub:sse:"+in.owner+` {"type":"deleted","id":"`+string(id)+`"}`)
}

func TestTheNextLeaderContinuesFromTheCursor(t *testing.T) {
	in := newInstallation(t, devenv.Redis(t))
	old, settled := in.create(), in.create()
	first := in.process(quick)
	in.awaitSettled(first)
	resign := in.lead(first)
	storetest.Set(t, in.store, settled, "memo = 'x'")
	in.awaitUpdate(settled)
	if in.updates(old) != 0 {
		t.Error("without a cursor, what changed before is published")
	}
	revision := storetest.Row(t, in.store, settled).Revision
	wait.Until(t, "the cursor in Redis has passed it", func() bool {
		n, _ := in.redis.Get(t.Context(), events.CursorKey).Int64()
		return n >= revision
	})
	resign()
	first.stop()
	// There is no leader. Many workspaces change.
	var meanwhile []workspace.ID
	for range 600 {
		meanwhile = append(meanwhile, in.create())
	}
	before := in.updates(settled)
	second := in.process(quick)
	in.lead(second)
	for _, id := range meanwhile {
		in.awaitUpdate(id)
	}
	if in.updates(settled) != before {
		t.Error("what is settled is published again")
	}
	last := storetest.Row(t, in.store, meanwhile[len(meanwhile)-1]).Revision
	wait.Until(t, "the cursor follows", func() bool { return second.Cursor() >= last })
}

func TestAnEmptiedRedisStartsFromNow(t *testing.T) {
	in := newInstallation(t, devenv.Redis(t))
	old := in.create()
	if err := in.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	p := in.process(quick)
	in.awaitSettled(p)
	in.lead(p)
	if n, err := in.redis.Get(t.Context(), events.CursorKey).Int64(); err != nil || n < storetest.Row(t, in.store, old).Revision {
		t.Errorf("the cursor in Redis is %d, %v", n, err)
	}
	id := in.create()
	in.awaitUpdate(id)
	if in.updates(old) != 0 {
		t.Error("what changed before is published")
	}
	// Redis is emptied during a term: the publisher continues from the cursor in memory, and writes it again.
	if err := in.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	next := in.create()
	in.awaitUpdate(next)
	revision := storetest.Row(t, in.store, next).Revision
	wait.Until(t, "the cursor is written again", func() bool {
		n, _ := in.redis.Get(t.Context(), events.CursorKey).Int64()
		return n >= revision
	})
}

// TestAPublisherThatFailsInTheMiddleMissesNothing: pipelines fail on their way to Redis and back, in the middle of a burst.
func TestAPublisherThatFailsInTheMiddleMissesNothing(t *testing.T) {
	url := devenv.Redis(t)
	in := newInstallation(t, url)
	w := in.wired(url)
	p := in.process(changes.Options{Poll: 5 * time.Millisecond})
	in.lead(p)
	broken := errors.New("broken")
	w.set(func(n int) (before, after error) {
		switch n % 5 {
		case 1:
			return broken, nil
		case 3:
			return nil, broken
		}
		return nil, nil
	})
	var all []workspace.ID
	for range 700 { // several pipelines
		all = append(all, in.create())
	}
	for _, id := range all {
		in.awaitUpdate(id)
	}
	if n := len(in.logs.FilterMessageSnippet("events for other programs are not published").All()); n == 0 {
		t.Error("no failure was logged: nothing was tested")
	}
}

func TestWhatChangesWhileRedisIsAwayIsPublishedLater(t *testing.T) {
	dir := t.TempDir()
	start := func() *server.Redis {
		t.Helper()
		s, err := server.StartRedis(server.Durable(dir, "redis"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := start()
	defer func() { _ = s.Stop() }()
	in := newInstallation(t, s.URL())
	w := in.wired(s.URL())
	p := in.process(changes.Options{Poll: 5 * time.Millisecond})
	in.lead(p)
	in.awaitUpdate(in.create())
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	var during []workspace.ID
	for range 50 {
		during = append(during, in.create())
	}
	wait.Until(t, "the outage is logged", func() bool { return in.logs.Len() > 0 })
	s = start()
	// The program reconnects later than the publisher does, and misses some messages. So the test counts the answers
	// that the publisher receives.
	wait.Until(t, "everything is published", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(during, func(id workspace.ID) bool { return w.published[in.update(id)] == 0 })
	})
	wait.Until(t, "the end of the outage is logged", func() bool {
		return in.logs.FilterMessage("events are published again").Len() == 1
	})
	if n := in.logs.FilterLevelExact(zap.WarnLevel).Len(); n != 1 {
		t.Errorf("the outage is logged %d times: %v", n, in.logs.All())
	}
}

// TestAFullQueueIsReadAgainFromTheDatabase: while Redis is slow, more workspaces change than the queue holds.
func TestAFullQueueIsReadAgainFromTheDatabase(t *testing.T) {
	url := devenv.Redis(t)
	in := newInstallation(t, url)
	w := in.wired(url)
	p := in.process(changes.Options{Poll: 5 * time.Millisecond})
	in.lead(p)
	held, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.set(func(int) (before, after error) {
		once.Do(func() { close(held); <-gate })
		return nil, nil
	})
	first := in.create()
	<-held
	storetest.Exec(t, in.store, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		SELECT $1, 'many', 'docker', 'docker', 'x', 'ARCHIVED', 'ARCHIVED' FROM generate_series(1, 6000)`, in.owner)
	wait.Until(t, "the feed has passed on more than may wait", p.Overflowed)
	close(gate)
	in.awaitUpdate(first)
	wait.Until(t, "all updates are published", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.published) >= 6001
	})
}

// TestARedisThatRefusesWritesStillPublishes: a Redis that is out of memory publishes, but does not store the cursor.
func TestARedisThatRefusesWritesStillPublishes(t *testing.T) {
	in := newInstallation(t, devenv.Redis(t))
	p := in.process(quick)
	in.lead(p)
	in.awaitUpdate(in.create())
	in.awaitSettled(p)
	wait.Until(t, "the cursor follows", func() bool { return p.Cursor() == p.Settled() })
	if err := in.redis.ConfigSet(t.Context(), "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	kept, err := in.redis.Get(t.Context(), events.CursorKey).Int64()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		in.awaitUpdate(in.create())
		in.awaitSettled(p)
		wait.Until(t, "the cursor in memory follows", func() bool { return p.Cursor() == p.Settled() })
	}
	if now, err := in.redis.Get(t.Context(), events.CursorKey).Int64(); err != nil || now != kept {
		t.Errorf("the cursor in Redis is %d, %v; it was %d", now, err, kept)
	}
	if all := in.logs.All(); len(all) != 1 || !strings.Contains(all[0].Message, "redis does not store") {
		t.Errorf("logged %v", all)
	}
}

// TestAnOlderDatabaseMovesTheCursorBack: the database was restored from a backup while there was no leader, so the cursor in
// Redis refers to revisions that now belong to other changes.
func TestAnOlderDatabaseMovesTheCursorBack(t *testing.T) {
	in := newInstallation(t, devenv.Redis(t))
	ids := []workspace.ID{in.create(), in.create(), in.create()}
	position, err := in.store.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := in.redis.Set(t.Context(), events.CursorKey, position.Revision, 0).Err(); err != nil {
		t.Fatal(err)
	}
	p := events.NewPublisher(in.redis, in.store, events.Prefixes{}, in.log)
	p.Reset(storetest.Row(t, in.store, ids[0]).Revision)
	stop := run(t, p.Run)
	in.awaitUpdate(ids[1])
	in.awaitUpdate(ids[2])
	if in.updates(ids[0]) != 0 {
		t.Error("what is settled is published")
	}
	// The same happens while it leads.
	p.Reset(0)
	in.awaitUpdate(ids[0])
	stop()
	// A cursor ahead of the database belongs to another database.
	if err := in.redis.Set(t.Context(), events.CursorKey, position.Revision+1000, 0).Err(); err != nil {
		t.Fatal(err)
	}
	in.lead(in.process(quick))
	in.awaitUpdate(in.create())
}
