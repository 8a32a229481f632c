package e2e

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestRedisFaults: with any fault of Redis, users notice nothing, and no workspace in use is put to sleep (SPEC 5).
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	storage := server.Durable(t.TempDir(), "redis")
	srv, err := server.StartRedis(storage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Stop() })
	options, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	do := func(args ...any) {
		t.Helper()
		if err := client.Do(t.Context(), args...).Err(); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
	}
	s := play(t, "REDIS_URL="+srv.URL())
	for _, fault := range []struct {
		name       string
		begin, end func()
		silent     bool // nothing fails, so nothing is logged
	}{
		{name: "Redis was emptied", begin: func() { do("FLUSHALL") }, end: func() {}, silent: true},
		{name: "Redis was read-only", begin: func() { do("REPLICAOF", "127.0.0.1", "1") }, end: func() { do("REPLICAOF", "NO", "ONE") }},
		{name: "Redis was out of memory", begin: func() { do("CONFIG", "SET", "maxmemory", "1") }, end: func() { do("CONFIG", "SET", "maxmemory", "0") }},
		{name: "Redis was restarted",
			begin: func() {
				if err := srv.Stop(); err != nil {
					t.Fatal(err)
				}
			},
			end: func() {
				if srv, err = server.StartRedis(storage); err != nil {
					t.Fatal(err)
				}
			}},
	} {
		mark := s.mark()
		used := s.lastUse(t)
		fault.begin()
		s.shows(t, fault.name, usually)
		wait.For(t, "the use of the open workspace is known", func() error { return s.usedAfter(t, used) })
		if !fault.silent { // the use may have been on its way to the database before
			wait.Until(t, "a write to Redis has failed", func() bool { return strings.Contains(s.log.String()[mark:], "redis takes no activity") })
		}
		fault.end()
		s.recovers(t, fault.name)
		s.judges(t, "after "+fault.name)
		if !fault.silent {
			s.logged(t, mark, "redis takes no activity", "redis takes activity again")
		}
	}
}
