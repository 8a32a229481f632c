package changes_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// process is the feed with its real subscribers and notifications.
type process struct {
	table *route.Table
	hub   *events.Hub
}

func newProcess(t testing.TB, s *store.Store, o changes.Options) *process {
	t.Helper()
	p := &process{hub: events.NewHub()}
	feed := changes.New(s, o, zap.NewNop())
	p.table = route.New(s, route.Options{Feed: feed}, zap.NewNop())
	feed.Subscribe(p.table, p.hub)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{}, 3)
	connected := make(chan struct{}, 100)
	go func() { p.table.Run(ctx); ended <- struct{}{} }()
	go func() { _ = feed.Run(ctx); ended <- struct{}{} }()
	go func() {
		for ctx.Err() == nil {
			_ = s.Listen(ctx, func() { feed.RefreshAll(); connected <- struct{}{} },
				func(n postgres.Notification) { feed.Refresh(n.WorkspaceID) })
		}
		ended <- struct{}{}
	}()
	t.Cleanup(func() {
		cancel()
		for range cap(ended) {
			<-ended
		}
	})
	<-connected
	<-p.table.Loaded()
	return p
}

func create(t testing.TB, s *store.Store, owner string) workspace.ID {
	t.Helper()
	id := workspace.ID(uuid.NewString())
	if _, _, err := s.Create(t.Context(), workspace.Workspace{
		ID: id, OwnerID: owner, Name: "one", InstanceBackend: "docker", StorageBackend: "docker",
	}, "test", store.Limits{}); err != nil {
		t.Fatal(err)
	}
	return id
}

// TestCutConnectionsLoseNoNews: while connections are cut again and again, the last state of every workspace arrives in the route
// table and in its owner's stream.
func TestCutConnectionsLoseNoNews(t *testing.T) {
	s := storetest.Open(t)
	owner := storetest.AddUser(t, s)
	var ids []workspace.ID
	for range 20 {
		ids = append(ids, create(t, s, owner))
	}
	p := newProcess(t, s, changes.Options{Poll: never})
	stream, cancel := p.hub.Subscribe(owner, func() {})
	defer cancel()
	told := map[workspace.ID]int{}
	for n := range 10 {
		if n%2 == 1 {
			storetest.Exec(t, s, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query ~ '^LISTEN|^-- ping'`)
		}
		for i, id := range ids {
			storetest.Set(t, s, id, fmt.Sprintf("phase = 'RUNNING', endpoint = '10.0.%d.%d:80'", n, i))
			for more := true; more; {
				select {
				case e := <-stream:
					told[e.ID]++
				default:
					more = false
				}
			}
		}
	}
	for i, id := range ids {
		wait.Until(t, "the table has the last state", func() bool {
			e, ok := p.table.Lookup(id)
			return ok && e.State().Route.Endpoint == fmt.Sprintf("10.0.9.%d:80", i)
		})
	}
	wait.Until(t, "the stream was told of every workspace", func() bool {
		select {
		case e := <-stream:
			told[e.ID]++
		default:
		}
		return len(told) == len(ids)
	})
}

// TestAHundredThousandArchivedWorkspacesAreNotRead: archived workspaces that do not change are not read, however many there are
// and however often the feed polls. This test shows that the feed's queries return no rows. The tests of package store
// show that such queries read no other rows.
func TestAHundredThousandArchivedWorkspacesAreNotRead(t *testing.T) {
	s := storetest.Open(t)
	storetest.Exec(t, s, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		SELECT $1, 'many', 'docker', 'docker', 'x', 'ARCHIVED', 'ARCHIVED' FROM generate_series(1, 100000)`, storetest.AddUser(t, s))
	h, _ := newHarness(t, s, changes.Options{Poll: 5 * time.Millisecond, Window: 300 * time.Millisecond}, zap.NewNop())
	position, err := s.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "everything is settled", func() bool { settled, _ := h.state(); return settled == position.Revision })
	h.mu.Lock()
	if n := len(h.times); n > 1000 {
		t.Errorf("%d changes are passed on at the start", n)
	}
	h.mu.Unlock()
	rows, pages := h.db.count(&h.db.rows), h.db.count(&h.db.pages)
	wait.Until(t, "some more polls have passed", func() bool { return h.db.count(&h.db.pages) > pages+20 })
	if n := h.db.count(&h.db.rows) - rows; n != 0 {
		t.Errorf("%d rows were read", n)
	}
}

// BenchmarkUpdateToRouteTable measures the time from the commit of a change until the route table has it. For
// comparison, it also measures a query of one row on the same server.
func BenchmarkUpdateToRouteTable(b *testing.B) {
	s := storetest.Open(b)
	id := create(b, s, storetest.AddUser(b, s))
	p := newProcess(b, s, changes.Options{})
	e, err := p.table.Find(b.Context(), id)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("change", func(b *testing.B) {
		for n := range b.N {
			was := e.State()
			b.StopTimer()
			storetest.Set(b, s, id, fmt.Sprintf("phase = 'RUNNING', endpoint = 'h:%d%d'", b.N, n))
			b.StartTimer()
			if e.State() == was {
				<-was.Changed()
			}
		}
	})
	b.Run("query", func(b *testing.B) {
		for range b.N {
			if _, err := s.Routes(b.Context(), []workspace.ID{id}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
