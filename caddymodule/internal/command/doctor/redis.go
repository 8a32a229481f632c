package doctor

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/backend/check"
)

// redisKey is the key that the check writes as a test. redisKeyFor is when Redis removes the key if the check does not.
const (
	redisKey    = "codehub:doctor"
	redisKeyFor = 10 * time.Second
)

func (p patient) checkRedis(ctx context.Context) ([]check.Finding, error) {
	o, err := redis.ParseURL(p.Options.Redis)
	if err != nil {
		return nil, errors.New("the address cannot be understood") // it may hold a password
	}
	client := redis.NewClient(o)
	defer client.Close()
	before := time.Now()
	theirs, err := client.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	found := []check.Finding{check.Clock("Redis", before, theirs, time.Now())}
	if err := client.Set(ctx, redisKey, "", redisKeyFor).Err(); err != nil {
		found = append(found, check.Problem(refusedWrite(err),
			"Redis refuses writes, so that every process writes each use to PostgreSQL itself: %s", err))
	} else if err := client.Del(ctx, redisKey).Err(); err != nil {
		return found, err
	}
	return append(found, forgetful(ctx, client)...), nil
}

// refusedWrite maps the code at the beginning of a write error to the remedy.
func refusedWrite(err error) string {
	code, _, _ := strings.Cut(err.Error(), " ")
	switch code {
	case "MISCONF":
		return "make room on the disk of Redis, or let it write there: it cannot save what it holds; its log has the cause"
	case "OOM":
		return "raise maxmemory of Redis, or give CodeHub a Redis of its own: it needs a few megabytes"
	case "READONLY":
		return "name the primary in the setting redis (REDIS_URL): the server there is a replica"
	case "NOPERM":
		return "let the user of the setting redis read and write the keys that begin with codehub:"
	}
	return "look at the log of Redis"
}

// forgetful reports settings with which Redis loses written data. It skips servers that hide their settings, as the
// servers of some clouds do.
func forgetful(ctx context.Context, client *redis.Client) (found []check.Finding) {
	const lost = "the uses of the last minute, so that a workspace may sleep too early"
	memory := fields(client.Info(ctx, "memory").Val())
	// The policies volatile-… evict only keys that expire, and ours never do.
	if policy := memory["maxmemory_policy"]; strings.HasPrefix(policy, "allkeys-") {
		found = append(found, check.Warning("set maxmemory-policy noeviction in Redis",
			"the policy of Redis is %s: once its memory is full it forgets %s", policy, lost))
	}
	saves, err := client.ConfigGet(ctx, "save").Result()
	if err == nil && saves["save"] == "" && fields(client.Info(ctx, "persistence").Val())["aof_enabled"] == "0" {
		found = append(found, check.Warning("set appendonly yes in Redis, on a disk that outlives a restart",
			"Redis keeps nothing on disk: when it restarts it forgets %s", lost))
	}
	return found
}

// fields returns the lines name:value of Redis' INFO.
func fields(info string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all
}
