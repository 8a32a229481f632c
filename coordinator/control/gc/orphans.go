package gc

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// DefaultKey is the key of the sorted set that records since when archives have been orphans. The member is the archive
// key. The score is the time at which the archive was first seen as an orphan, in Unix milliseconds by the clock of the
// Redis server.
const DefaultKey = "codehub:gc:orphans"

// generationLife is how long the set of an interrupted cycle stays in Redis.
const generationLife = 24 * time.Hour

// OrphanTracker records since when each archive has been an orphan. The record is in Redis. If Redis loses it, all
// delays start again, which only postpones deletions.
//
// Each cycle writes a new set, its generation. When the cycle has seen everything, the new set replaces that of the
// last cycle. So the delay of an archive starts again if a cycle in between found it protected or did not find it. An
// interrupted cycle changes nothing.
type OrphanTracker struct {
	redis redis.UniversalClient
	key   string
}

// NewOrphanTracker returns the tracker under key; an empty key means [DefaultKey].
func NewOrphanTracker(client redis.UniversalClient, key string) *OrphanTracker {
	return &OrphanTracker{redis: client, key: cmp.Or(key, DefaultKey)}
}

// generation is the set of one cycle.
type generation struct {
	*OrphanTracker
	name     string
	now      time.Time
	empty    bool
	readOnly bool
}

// untimed is the generation of a dry run without a tracker: it knows no times.
var untimed = &generation{readOnly: true}

// begin starts a generation. A read-only one writes nothing to Redis.
func (t *OrphanTracker) begin(ctx context.Context, readOnly bool) (*generation, error) {
	now, err := t.redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("reading the time of redis: %w", err)
	}
	return &generation{
		OrphanTracker: t,
		// The braces keep both keys on the same node of a Redis cluster, so that one key can replace the other.
		name:  "{" + t.key + "}:" + uuid.NewString(),
		now:   now.Truncate(time.Millisecond), // as exact as a score
		empty: true, readOnly: readOnly,
	}, nil
}

// see records orphans of this cycle and returns when each was first seen.
func (g *generation) see(ctx context.Context, keys []string) ([]time.Time, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	if g == untimed {
		return make([]time.Time, len(keys)), nil
	}
	scores, err := g.redis.ZMScore(ctx, g.key, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("reading when orphans were first seen: %w", err)
	}
	firstSeen := make([]time.Time, len(keys))
	members := make([]redis.Z, len(keys))
	for i, key := range keys {
		// A missing score reads as 0, and a time in the future cannot be right.
		at := int64(scores[i])
		if at <= 0 || at > g.now.UnixMilli() {
			at = g.now.UnixMilli()
		}
		firstSeen[i] = time.UnixMilli(at)
		members[i] = redis.Z{Score: float64(at), Member: key}
	}
	if g.readOnly {
		return firstSeen, nil
	}
	_, err = g.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, g.name, members...)
		p.PExpire(ctx, g.name, generationLife)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recording orphans: %w", err)
	}
	g.empty = false
	return firstSeen, nil
}

// commit replaces the last generation with this one.
func (g *generation) commit(ctx context.Context) error {
	if g.readOnly {
		return nil
	}
	_, err := g.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if g.empty {
			p.Del(ctx, g.key)
			return nil
		}
		p.Rename(ctx, g.name, g.key)
		p.Persist(ctx, g.key)
		return nil
	})
	if err != nil {
		return fmt.Errorf("saving the orphans of this cycle: %w", err)
	}
	return nil
}

// remove stops tracking archives that were deleted or that a workspace needs again.
func (t *OrphanTracker) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	members := make([]any, len(keys))
	for i, key := range keys {
		members[i] = key
	}
	if err := t.redis.ZRem(ctx, t.key, members...).Err(); err != nil {
		return fmt.Errorf("removing archives from the orphans: %w", err)
	}
	return nil
}
