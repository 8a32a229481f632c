package gc

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

// DefaultKey is the sorted set that times orphans: member archive key, score Unix
// milliseconds of the first sighting, by the clock of the Redis server.
const DefaultKey = "codehub:gc:orphans"

// draftLife is how long the sightings of a cycle that was broken off stay in
// Redis.
const draftLife = 24 * time.Hour

// Sightings remembers since when each orphan has been one. It lives in Redis;
// losing it starts all timers anew, which only delays.
//
// A cycle writes its own set and, when it has seen everything, puts it in the
// place of the last one. So an archive that was not an orphan in between, or was
// gone, starts anew, and a cycle that breaks off changes nothing.
type Sightings struct {
	redis redis.UniversalClient
	key   string
}

// NewSightings returns the sightings under key; an empty key means [DefaultKey].
func NewSightings(client redis.UniversalClient, key string) *Sightings {
	if key == "" {
		key = DefaultKey
	}
	return &Sightings{redis: client, key: key}
}

// draft is the set of one cycle.
type draft struct {
	*Sightings
	name  string
	now   time.Time
	empty bool
	// dry drafts write nothing.
	dry bool
}

func (s *Sightings) begin(ctx context.Context, dry bool) (*draft, error) {
	now, err := s.redis.Time(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("asking redis for its time: %w", err)
	}
	// The braces keep both names on one node of a cluster, where they can be swapped.
	return &draft{Sightings: s, name: "{" + s.key + "}:" + uuid.NewString(), now: now, empty: true, dry: dry}, nil
}

// see records orphans of this cycle and returns since when each has been one.
func (d *draft) see(ctx context.Context, keys []string) ([]time.Time, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	scores, err := d.redis.ZMScore(ctx, d.key, keys...).Result()
	if err != nil {
		return nil, fmt.Errorf("reading first sightings: %w", err)
	}
	since := make([]time.Time, len(keys))
	members := make([]redis.Z, len(keys))
	for i, key := range keys {
		// A missing score reads as 0, and a time that is yet to come cannot be one.
		at := int64(scores[i])
		if at <= 0 || at > d.now.UnixMilli() {
			at = d.now.UnixMilli()
		}
		since[i] = time.UnixMilli(at)
		members[i] = redis.Z{Score: float64(at), Member: key}
	}
	if d.dry {
		return since, nil
	}
	_, err = d.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZAdd(ctx, d.name, members...)
		p.PExpire(ctx, d.name, draftLife)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recording sightings: %w", err)
	}
	d.empty = false
	return since, nil
}

// commit puts the cycle's set in the place of the last one.
func (d *draft) commit(ctx context.Context) error {
	if d.dry {
		return nil
	}
	_, err := d.redis.TxPipelined(ctx, func(p redis.Pipeliner) error {
		if d.empty {
			p.Del(ctx, d.key)
			return nil
		}
		p.Rename(ctx, d.name, d.key)
		p.Persist(ctx, d.key)
		return nil
	})
	if err != nil {
		return fmt.Errorf("saving sightings: %w", err)
	}
	return nil
}

// forget removes orphans that have been deleted.
func (s *Sightings) forget(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	members := make([]any, len(keys))
	for i, key := range keys {
		members[i] = key
	}
	if err := s.redis.ZRem(ctx, s.key, members...).Err(); err != nil {
		return fmt.Errorf("forgetting deleted archives: %w", err)
	}
	return nil
}
