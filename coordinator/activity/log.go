package activity

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Log is the sorted set in Redis as the TTL runner uses it: it reads the times,
// writes them to PostgreSQL, and then removes what it has read.
type Log struct {
	redis redis.UniversalClient
	key   string
}

// NewLog returns the log under key; an empty key means [DefaultKey].
func NewLog(client redis.UniversalClient, key string) *Log {
	if key == "" {
		key = DefaultKey
	}
	return &Log{redis: client, key: key}
}

// Read returns the newest known time of activity per workspace, to the
// millisecond, by the clock of the Redis server. Members that are not workspace
// ids are left out. An error means that nothing is known.
func (l *Log) Read(ctx context.Context) (map[workspace.ID]time.Time, error) {
	all, err := l.redis.ZRangeWithScores(ctx, l.key, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("reading activity from redis: %w", err)
	}
	seen := make(map[workspace.ID]time.Time, len(all))
	for _, z := range all {
		member, _ := z.Member.(string)
		if id, err := workspace.ParseID(member); err == nil {
			seen[id] = time.UnixMilli(int64(z.Score))
		}
	}
	return seen, nil
}

// removeUnchanged removes each member whose score is still the one given. The
// arguments are pairs of member and score.
var removeUnchanged = redis.NewScript(`
local removed = 0
for i = 1, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[i+1]) then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[i])
  end
end
return removed
`)

// Remove removes what Read returned, except where newer activity has been recorded
// since: that has not been written anywhere else yet.
func (l *Log) Remove(ctx context.Context, read map[workspace.ID]time.Time) error {
	args := make([]any, 0, 2*min(chunk, len(read)))
	flush := func() error {
		if len(args) == 0 {
			return nil
		}
		if err := removeUnchanged.Run(ctx, l.redis, []string{l.key}, args...).Err(); err != nil {
			return fmt.Errorf("removing activity from redis: %w", err)
		}
		args = args[:0]
		return nil
	}
	for id, at := range read {
		args = append(args, string(id), strconv.FormatInt(at.UnixMilli(), 10))
		if len(args) >= 2*chunk {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}
