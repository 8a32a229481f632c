package activity

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/workspace"
)

// mark is a member that shows whether Redis still has its old content. It is written only once, so it is missing if
// Redis was emptied or replaced.
const mark = "mark"

// inputMember returns the member for the last use by a person. Older releases ignore it.
func inputMember(id workspace.ID) string { return inputPrefix + string(id) }

const inputPrefix = "input:"

// Log is the sorted set in Redis as the TTL runner uses it. The runner reads the times, writes them to PostgreSQL, and then
// removes them from Redis. One goroutine uses it.
type Log struct {
	redis redis.UniversalClient
	key   string
	known bool    // Read was called before
	mark  float64 // the mark's score after the last Read; 0 if missing
}

// NewLog returns the log under key; an empty key means [DefaultKey].
func NewLog(client redis.UniversalClient, key string) *Log {
	return &Log{redis: client, key: cmp.Or(key, DefaultKey)}
}

// Reading is the content of Redis.
type Reading struct {
	// At has the time of each workspace's last known activity, to the millisecond. Input has the time of its last
	// activity by a person. Now is the time of the reading. All times are by the clock of the Redis server.
	At, Input map[workspace.ID]time.Time
	Now       time.Time
	// Emptied means that Redis has lost its content since the last Read. Times that processes have written since then
	// may be missing until they are sent again.
	Emptied bool
}

// Read returns the content of Redis, without unknown members. After an error nothing is known.
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
	read := Reading{
		At: make(map[workspace.ID]time.Time, len(all.Val())), Input: make(map[workspace.ID]time.Time), Now: now.Val(),
	}
	found := 0.0
	for _, z := range all.Val() {
		member, _ := z.Member.(string)
		if member == mark {
			found = z.Score
			continue
		}
		of := read.At
		member, input := strings.CutPrefix(member, inputPrefix)
		if input {
			of = read.Input
		}
		if id, err := workspace.ParseID(member); err == nil {
			of[id] = time.UnixMilli(int64(z.Score))
		}
	}
	read.Emptied = l.known && found != l.mark
	l.known, l.mark = true, found
	if found == 0 {
		// If Redis refuses this write, it also refuses activity, so there is nothing that it could lose.
		score := float64(read.Now.UnixMicro())
		if l.redis.ZAddNX(ctx, l.key, redis.Z{Score: score, Member: mark}).Err() == nil {
			l.mark = score
		}
	}
	return read, nil
}

// removeUnchanged removes each member whose score still equals the given one. The arguments are pairs of member and score.
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

// Remove removes the times that Read returned for some workspaces. If newer activity of a workspace has been recorded
// since, its time stays, because that activity is not written anywhere else yet.
func (l *Log) Remove(ctx context.Context, at, input map[workspace.ID]time.Time) error {
	args := make([]any, 0, 2*min(chunk, len(at)+len(input)))
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
	add := func(member string, at time.Time) error {
		if args = append(args, member, strconv.FormatInt(at.UnixMilli(), 10)); len(args) < 2*chunk {
			return nil
		}
		return flush()
	}
	for id, t := range at {
		if err := add(string(id), t); err != nil {
			return err
		}
	}
	for id, t := range input {
		if err := add(inputMember(id), t); err != nil {
			return err
		}
	}
	return flush()
}
