package activity

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/workspace"
)

// mark is the member that shows that Redis still has what it had. It is written once, and is
// missing in a Redis that was emptied or replaced.
const mark = "mark"

// Log is the sorted set in Redis as the TTL runner uses it. The runner reads the times, writes
// them to PostgreSQL, and then removes what it has read. One goroutine uses it.
type Log struct {
	redis redis.UniversalClient
	key   string
	known bool    // there was a Read
	mark  float64 // the mark's score after the last Read; 0: there was none
}

// NewLog returns the log under key; an empty key means [DefaultKey].
func NewLog(client redis.UniversalClient, key string) *Log {
	if key == "" {
		key = DefaultKey
	}
	return &Log{redis: client, key: key}
}

// Reading is what Redis has.
type Reading struct {
	// At is the newest known time of activity per workspace, to the millisecond. Now is the time
	// of the reading. Both are by the clock of the Redis server.
	At  map[workspace.ID]time.Time
	Now time.Time
	// Emptied says that Redis has lost what it had since the last Read. What the processes have
	// written meanwhile may be missing, until they send it again.
	Emptied bool
}

// Read returns what Redis has. Members that are not workspace ids are left out. An
// error means that nothing is known.
func (l *Log) Read(ctx context.Context) (Reading, error) {
	var now *redis.TimeCmd
	var all *redis.ZSliceCmd
	_, err := l.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
		now, all = p.Time(ctx), p.ZRangeWithScores(ctx, l.key, 0, -1)
		return nil
	})
	if err != nil {
		return Reading{}, fmt.Errorf("reading activity from redis: %w", err)
	}
	read := Reading{At: make(map[workspace.ID]time.Time, len(all.Val())), Now: now.Val()}
	found := 0.0
	for _, z := range all.Val() {
		member, _ := z.Member.(string)
		if member == mark {
			found = z.Score
		} else if id, err := workspace.ParseID(member); err == nil {
			read.At[id] = time.UnixMilli(int64(z.Score))
		}
	}
	read.Emptied = l.known && found != l.mark
	l.known, l.mark = true, found
	if found == 0 {
		// A Redis that refuses writes refuses the activity as well: there is nothing to lose.
		score := float64(read.Now.UnixMicro())
		if l.redis.ZAddNX(ctx, l.key, redis.Z{Score: score, Member: mark}).Err() == nil {
			l.mark = score
		}
	}
	return read, nil
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
