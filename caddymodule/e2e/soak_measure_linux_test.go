package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/e2e/soak"
	"github.com/codehub/gateway/coordinator/wait"
)

// soakAllowed is how much the counts after the faults may differ from those before the faults. Both are taken at rest,
// with the same workspaces.
var soakAllowed = []soak.Allowance{
	// Each connection that a pool keeps for reuse needs goroutines and handles. The PostgreSQL pool of a process keeps
	// up to 10 connections, and its Redis pool up to 10 for each processor.
	{Name: regexp.MustCompile(`goroutines$`), More: 24},
	{Name: regexp.MustCompile(`handles of files$`), More: 4},
	{Name: regexp.MustCompile(`handles of sockets$`), More: 32},
	{Name: regexp.MustCompile(`^connections of (postgresql|redis)$`), More: 30},
	// These rows are kept for some time, or as long as there is room: history, audit, usage and addresses.
	{Name: regexp.MustCompile(`^rows (workspace_history|audit_log|usage_days|workspace_addresses|activity_writers|tickets)$`), Any: true},
	// A sign-in on a workspace's own host is repeated if its answer is lost.
	{Name: regexp.MustCompile(`^rows sessions beyond sign-ins$`), More: 3 * soakEditors},
	{Name: regexp.MustCompile(`^rows `), Less: true},
	{Name: regexp.MustCompile(`^objects`), Less: true},
}

// administration asks Caddy's administration endpoint of a process for a page.
func (n *node) administration(ctx context.Context, page string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", n.adminSocket)
	}}}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/"+page, nil)
	if err != nil {
		return "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return string(text), err
}

// gauges returns the metrics of a process, or nil if the process does not answer.
func (n *node) gauges(ctx context.Context) map[string]float64 {
	text, err := n.administration(ctx, "metrics")
	if err != nil {
		return nil
	}
	all := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && !strings.HasPrefix(name, "#") {
			all[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return all
}

// measure records the figures of the servers and the processes, every second until ctx ends. It measures the memory in
// use after a garbage collection, which it forces now and then.
func (s *soaking) measure(ctx context.Context) {
	const mebi = 1 << 20
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	last := s.rec.Began() // the first values are the means of what came before
	for round := 0; ; round++ {
		now := time.Now()
		s.rec.Tick(now, now.Sub(last))
		last = now
		s.rec.Gauge("held/requests", now, float64(s.held.Load()))
		for i, n := range s.nodes {
			if round%2 != 0 || !s.balancer.backends[i].up.Load() {
				continue
			}
			if round%10 == 0 {
				_, _ = n.administration(ctx, "debug/pprof/heap?gc=1")
			}
			g := n.gauges(ctx)
			if g == nil {
				continue
			}
			s.rec.Gauge("rss/"+n.Name, now, g["process_resident_memory_bytes"]/mebi)
			s.rec.Gauge("goroutines/"+n.Name, now, g["go_goroutines"])
			s.rec.Gauge("fds/"+n.Name, now, g["process_open_fds"])
			if round%10 == 0 {
				s.rec.Gauge("heap/"+n.Name, now, g["go_memstats_heap_alloc_bytes"]/mebi)
			}
		}
		if round%5 == 0 {
			s.measureServers(ctx, now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// measureServers records the figures of PostgreSQL and Redis, if they answer.
func (s *soaking) measureServers(ctx context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if conn, err := pgx.Connect(ctx, s.setting("DATABASE_URL")); err == nil {
		defer conn.Close(ctx)
		var n int
		if conn.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()`).Scan(&n) == nil {
			s.rec.Gauge("connections/postgresql", now, float64(n))
		}
		rows, err := conn.Query(ctx, `SELECT CASE WHEN doze_at IS NULL THEN phase ELSE 'dozing' END AS shown, count(*)
			FROM workspaces WHERE phase NOT IN ('ARCHIVED', 'DELETED') GROUP BY shown`)
		if err == nil {
			var phase string
			var n int
			_, _ = pgx.ForEachRow(rows, []any{&phase, &n}, func() error {
				s.rec.Gauge("phase/"+phase, now, float64(n))
				return nil
			})
		}
	}
	if list, err := s.redis.ClientList(ctx).Result(); err == nil {
		s.rec.Gauge("connections/redis", now, float64(strings.Count(list, "\n")))
	}
}

// snapshot counts everything that may leak.
func (s *soaking) snapshot(t *testing.T) soak.Snapshot {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	snap := soak.Snapshot{"proxied connections": 0}
	for _, n := range s.nodes {
		profile, err := n.administration(ctx, "debug/pprof/goroutine?debug=1")
		check(err)
		n.goroutines = soak.Goroutines(profile)
		sum := 0
		for _, count := range n.goroutines {
			sum += count
		}
		snap[n.Name+" goroutines"] = float64(sum)
		handles, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", n.cmd.Process.Pid))
		check(err)
		for _, path := range handles {
			switch to, err := os.Readlink(path); {
			case err != nil: // it is closed meanwhile
			case strings.HasPrefix(to, "socket:"):
				snap[n.Name+" handles of sockets"]++
			default:
				snap[n.Name+" handles of files"]++
			}
		}
	}
	connections, err := os.ReadFile("/proc/self/net/tcp")
	check(err)
	for line := range strings.Lines(string(connections)) {
		const established, application = "01", ":1F90" // port 8080 of a container
		if f := strings.Fields(line); len(f) > 3 && f[3] == established && strings.HasSuffix(f[2], application) {
			snap["proxied connections"]++
		}
	}
	containers, err := s.docker.ContainerList(ctx, container.ListOptions{All: true})
	check(err)
	volumes, err := s.docker.VolumeList(ctx, volume.ListOptions{})
	check(err)
	networks, err := s.docker.NetworkList(ctx, network.ListOptions{})
	check(err)
	snap["containers"], snap["volumes"], snap["networks"] = float64(len(containers)), float64(len(volumes.Volumes)), float64(len(networks))
	list, err := s.redis.ClientList(ctx).Result()
	check(err)
	snap["connections of redis"] = float64(strings.Count(list, "\n"))
	s.countRows(ctx, t, snap)
	for token := (*string)(nil); ; {
		page, err := s.s3.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &s.bucket, ContinuationToken: token})
		check(err)
		snap["objects beyond two an archive"] += float64(len(page.Contents))
		if token = page.NextContinuationToken; token == nil {
			break
		}
	}
	snap["objects beyond two an archive"] -= 2 * snap["archives"]
	delete(snap, "archives")
	return snap
}

// contents lists what the engine and the object store have at rest, leftovers included.
func (s *soaking) contents(t *testing.T) (all []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	containers, err := s.docker.ContainerList(ctx, container.ListOptions{All: true})
	for _, c := range containers {
		all = append(all, fmt.Sprintf("container %v %s (%s), labels %v", c.Names, c.State, c.Status, c.Labels))
	}
	volumes, other := s.docker.VolumeList(ctx, volume.ListOptions{})
	if err = errors.Join(err, other); err != nil {
		t.Fatal(err)
	}
	for _, v := range volumes.Volumes {
		all = append(all, fmt.Sprintf("volume %s, labels %v", v.Name, v.Labels))
	}
	conn, err := pgx.Connect(ctx, s.setting("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT key FROM workspaces, unnest(ARRAY[archive_key, archive_key || '.meta']) AS key WHERE key IS NOT NULL`)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	current := make(map[string]bool, len(keys))
	for _, key := range keys {
		current[key] = true
	}
	for pages := s3.NewListObjectsV2Paginator(s.s3, &s3.ListObjectsV2Input{Bucket: &s.bucket}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Contents {
			if !current[*o.Key] {
				all = append(all, fmt.Sprintf("object %s of %s", *o.Key, o.LastModified.UTC().Format(time.DateTime)))
			}
		}
	}
	return all
}

// countRows counts the rows of every table, and subtracts the rows that are expected. The run itself keeps account of
// what its users have created since.
func (s *soaking) countRows(ctx context.Context, t *testing.T, snap soak.Snapshot) {
	t.Helper()
	conn, err := pgx.Connect(ctx, s.setting("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	count := func(query string) (n float64) {
		t.Helper()
		if err := conn.QueryRow(ctx, "SELECT count(*)::float8 FROM "+query).Scan(&n); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return n
	}
	rows, err := conn.Query(ctx, `SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		snap["rows "+table] = count(pgx.Identifier{table}.Sanitize())
	}
	snap["connections of postgresql"] = count(`pg_stat_activity WHERE datname = current_database()`)
	snap["archives"] = count(`workspaces WHERE archive_key IS NOT NULL AND collected_at IS NULL`)
	snap["rows archives"] -= snap["archives"]
	snap["rows workspaces"] -= float64(s.created.Load())
	snap["rows usage_spans"] -= count(`workspaces WHERE phase <> 'DELETED'`)
	snap["rows sessions beyond sign-ins"] = count(`sessions WHERE parent_id IS NOT NULL`)
	snap["rows sessions"] -= snap["rows sessions beyond sign-ins"]
}

// connectRedis makes a read-only client of Redis.
func (s *soaking) connectRedis(t *testing.T, url string) {
	t.Helper()
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	s.redis = redis.NewClient(options)
	t.Cleanup(func() { _ = s.redis.Close() })
}
