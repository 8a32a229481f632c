package history

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/storetest"
)

func TestOldHistoryIsTrimmed(t *testing.T) {
	db := storetest.Open(t)
	id := uuid.NewString()
	storetest.Exec(t, db, `INSERT INTO workspace_history (workspace_id, at, kind, cause)
		SELECT $1, now() - make_interval(days => CASE WHEN i <= 2500 THEN 31 ELSE 29 END), 'phase', 'controller'
		FROM generate_series(1, 2510) AS i`, id)
	if err := Trim(t.Context(), Kept{func() time.Duration { return Retention }, db.TrimHistory}); err != nil {
		t.Error(err)
	}
	if left := storetest.Value[int](t, db, "SELECT count(*) FROM workspace_history"); left != 10 {
		t.Errorf("%d rows are left, want the 10 younger ones", left)
	}
}

// manyRows is a history that never ends.
type manyRows struct {
	calls  int
	limits map[int]bool
	after  func(calls int) (int64, error)
}

func (m *manyRows) TrimHistory(_ context.Context, _ time.Duration, limit int) (int64, error) {
	m.calls++
	m.limits[limit] = true
	return m.after(m.calls)
}

func TestTrimmingEndsWithTheTermAndWithAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	broken := errors.New("broken")
	m := &manyRows{limits: make(map[int]bool), after: func(calls int) (int64, error) {
		if calls == 3 {
			cancel()
		}
		return batch, nil
	}}
	kept := Kept{func() time.Duration { return Retention }, m.TrimHistory}
	if err := Trim(ctx, kept); err != nil || m.calls != 3 {
		t.Errorf("it trims %d times, %v", m.calls, err)
	}
	m.after = func(int) (int64, error) { return batch, broken }
	if err := Trim(t.Context(), kept); !errors.Is(err, broken) || m.calls != 4 {
		t.Errorf("it trims %d times, %v", m.calls, err)
	}
	m.calls, m.after = 0, func(calls int) (int64, error) {
		if calls == 1 {
			return 0, broken
		}
		return 0, nil
	}
	forGood := Kept{func() time.Duration { return 0 }, m.TrimHistory}
	if err := Trim(t.Context(), kept, forGood, kept); !errors.Is(err, broken) || m.calls != 2 {
		t.Errorf("the first fails, the second is kept for good: it trims %d times, %v", m.calls, err)
	}
	if len(m.limits) != 1 || !m.limits[batch] {
		t.Errorf("batches of %v", m.limits)
	}
}
