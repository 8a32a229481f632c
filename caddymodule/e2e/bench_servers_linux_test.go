package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// serverRequests is the number of requests for which the queries are counted.
const serverRequests = 100_000

// countQueries counts the queries that requests to a running workspace cause at PostgreSQL and Redis. It reads the
// statistics of these servers. It subtracts the queries that the program makes by itself in an idle period of the same
// length.
func (in *installation) countQueries(b *testing.B, s *site) {
	b.Helper()
	database, err := pgx.Connect(b.Context(), in.setting("DATABASE_URL"))
	if err != nil {
		b.Fatal(err)
	}
	defer database.Close(b.Context())
	options, err := redis.ParseURL(in.setting("REDIS_URL"))
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	during := func(f func()) (transactions, commands int64) {
		b.Helper()
		t, c := transactionsOf(b, database), commandsOf(b, client)
		f()
		return transactionsOf(b, database) - t, commandsOf(b, client) - c
	}
	start := time.Now()
	busyT, busyC := during(func() { s.run(b, serverRequests/len(s.conns)) })
	took := time.Since(start)
	idleT, idleC := during(func() { <-time.After(took) })
	figure("queries_per_100000_requests_seconds", took.Seconds(), "s")
	figure("queries_per_100000_requests_postgresql", float64(busyT-idleT), "transactions")
	figure("queries_per_100000_requests_postgresql_idle", float64(idleT), "transactions")
	figure("queries_per_100000_requests_redis", float64(busyC-idleC), "commands")
	figure("queries_per_100000_requests_redis_idle", float64(idleC), "commands")
}

// transactionsOf returns how many transactions the database has had.
func transactionsOf(b *testing.B, database *pgx.Conn) (n int64) {
	b.Helper()
	const query = `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`
	if err := database.QueryRow(b.Context(), query).Scan(&n); err != nil {
		b.Fatal(err)
	}
	return n
}

// commandsOf returns how many commands Redis has had.
func commandsOf(b *testing.B, client *redis.Client) (n int64) {
	b.Helper()
	info, err := client.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(info) {
		_, calls, ok := strings.Cut(line, ":calls=")
		if !ok {
			continue
		}
		calls, _, _ = strings.Cut(calls, ",")
		count, err := strconv.ParseInt(calls, 10, 64)
		if err != nil {
			b.Fatalf("%q: %v", line, err)
		}
		n += count
	}
	return n
}

// setting returns the last value of an environment variable of the program.
func (in *installation) setting(name string) (value string) {
	for _, line := range in.env {
		if v, ok := strings.CutPrefix(line, name+"="); ok {
			value = v
		}
	}
	return value
}

// compareAsleep measures what it costs to answer the tab of a sleeping workspace, which sends requests again and again.
// For comparison, it measures a static answer with the same status, headers and body.
func (in *installation) compareAsleep(b *testing.B, me *user, id string, h http.Header) {
	b.Helper()
	me.setDesiredState(b, id, "STANDBY")
	me.awaitPhase(b, id, "STANDBY")
	url := byHost.base(in, id) + "kilobyte"
	once := h.Clone()
	once.Del("Cookie") // the client sends its own
	res, body := me.get(b, url, once)
	if res.StatusCode != http.StatusServiceUnavailable || strings.ContainsAny(body, "`") {
		b.Fatal(res.Status, body)
	}
	var config strings.Builder
	for name, values := range res.Header {
		if name != "Date" && name != "Content-Length" && name != "Server" {
			config.WriteString("\theader " + name + " `" + values[0] + "`\n")
		}
	}
	config.WriteString("\trespond `" + strings.TrimSuffix(body, "\n") + "` 503\n")
	static := in.addSite(b, config.String())
	ratio := in.compare(b, "sleeping",
		&site{name: "gateway", conns: connectHTTP(b, 16, url, h, res.StatusCode, len(body))},
		&site{name: "plain", conns: connectHTTP(b, 16, static, h, res.StatusCode, len(strings.TrimSuffix(body, "\n")))})
	figure("sleeping_503_ratio", 1/ratio, "ratio")
}
