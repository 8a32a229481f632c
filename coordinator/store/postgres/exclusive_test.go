package postgres_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

func begin(t *testing.T, s *store.Store, name, holder string) *postgres.Exclusive {
	t.Helper()
	x, err := s.TryExclusive(t.Context(), name, holder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { x.End(context.WithoutCancel(t.Context())) })
	return x
}

func TestExclusiveWorkIsDoneByOneProcessAtATime(t *testing.T) {
	s := storetest.Open(t)
	first := begin(t, s, "gc", "node-1")
	if f := first.Fence(); f.Lock != "gc" || f.Epoch != 1 {
		t.Fatalf("%+v", f)
	}
	_, err := storetest.Reopen(t, s).TryExclusive(t.Context(), "gc", "node-2")
	var busy *postgres.BusyError
	if !errors.As(err, &busy) || busy.Holder != "node-1" || time.Since(busy.Since).Abs() > time.Hour || !strings.Contains(err.Error(), "gc is being done already, by node-1 since 2") {
		t.Fatalf("%v", err)
	}
	begin(t, s, "something else", "node-2")
	if err := first.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	first.End(t.Context())
	second := begin(t, s, "gc", "node-2")
	if second.Fence().Epoch != 2 {
		t.Errorf("%+v", second.Fence())
	}
	if held, err := s.Holds(t.Context(), first.Fence()); err != nil || held {
		t.Errorf("the former fence holds: %v, %v", held, err)
	}
	if err := first.Check(t.Context()); !errors.Is(err, postgres.ErrNotExclusive) {
		t.Errorf("after its end: %v", err)
	}
}

func TestOfManyProcessesOneDoesExclusiveWork(t *testing.T) {
	s := storetest.Open(t)
	var wg sync.WaitGroup
	var began atomic.Int32
	for range 8 {
		wg.Go(func() {
			x, err := s.TryExclusive(t.Context(), "gc", "node")
			var busy *postgres.BusyError
			switch {
			case err == nil:
				began.Add(1)
				t.Cleanup(func() { x.End(context.WithoutCancel(t.Context())) })
			case !errors.As(err, &busy):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := began.Load(); n != 1 {
		t.Errorf("%d of 8 began", n)
	}
}

func TestExclusiveWorkEndsWithItsConnection(t *testing.T) {
	s := storetest.Open(t)
	x := begin(t, s, "gc", "node-1")
	storetest.Exec(t, s, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'codehub gc node-1'")
	if err := x.Check(t.Context()); !errors.Is(err, postgres.ErrNotExclusive) {
		t.Errorf("Check returns %v", err)
	}
}

// A process was stopped for so long that the server let another one in.
func TestAFormerHolderIsToldByTheEpoch(t *testing.T) {
	s := storetest.Open(t)
	x := begin(t, s, "gc", "node-1")
	storetest.Exec(t, s, "UPDATE system_locks SET epoch = epoch + 1 WHERE lock_name = 'gc'")
	if err := x.Check(t.Context()); !errors.Is(err, postgres.ErrNotExclusive) {
		t.Errorf("Check returns %v", err)
	}
}

func TestExclusiveWorkNeedsTheServer(t *testing.T) {
	s, err := postgres.Open("postgres://nobody@127.0.0.1:1/none", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var busy *postgres.BusyError
	if _, err := s.TryExclusive(t.Context(), "gc", "node-1"); err == nil || errors.As(err, &busy) {
		t.Errorf("TryExclusive returns %v", err)
	}
	open := storetest.Open(t)
	storetest.Exec(t, open, "DROP TABLE system_locks")
	if _, err := open.TryExclusive(t.Context(), "gc", "node-1"); err == nil || errors.As(err, &busy) {
		t.Errorf("without its table, TryExclusive returns %v", err)
	}
}
