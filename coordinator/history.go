package coordinator

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
)

// Bounds of the trimming of the history.
const (
	// trimInterval is the time between two rounds.
	trimInterval = time.Hour
	// trimBatch is how many rows one statement deletes.
	trimBatch = 1000
)

// history is the database as the trimmer uses it. *store.Store implements it.
type history interface {
	TrimHistory(ctx context.Context, olderThan time.Duration, limit int) (deleted int64, err error)
}

// trimmer deletes old transitions from the history of the workspaces (SPEC 4). The leader
// of shard 0 runs it.
type trimmer struct {
	history   history
	retention atomic.Int64
	loop      *periodic.Loop
}

func newTrimmer(h history, log *zap.Logger) *trimmer {
	t := &trimmer{history: h}
	t.retention.Store(int64(DefaultHistoryRetention))
	t.loop = periodic.New("trimming the history", trimInterval, t.trim, log)
	return t
}

// set changes how long transitions are kept, from the next round on.
func (t *trimmer) set(retention time.Duration) { t.retention.Store(int64(retention)) }

// run trims at once and then every interval, until ctx ends, and returns nil.
func (t *trimmer) run(ctx context.Context) error {
	t.loop.Wake()
	t.loop.Run(ctx)
	return nil
}

// trim deletes what is too old, in batches, so that no statement is long.
func (t *trimmer) trim(ctx context.Context) error {
	for ctx.Err() == nil {
		deleted, err := t.history.TrimHistory(ctx, time.Duration(t.retention.Load()), trimBatch)
		if err != nil || deleted < trimBatch {
			return err
		}
	}
	return nil
}
