package doctor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// servers are the settings of an installation without an engine. Each row of the table breaks one of them.
type servers struct {
	database, redis       string
	endpoint, bucket, key string
	secret                string
	site, options         string // lines of the app, and of the options servers
	control               *redis.Client
	objects               devenv.ObjectStore
}

// TestBreakages breaks one thing at a time, and checks that doctor names it with its remedy. Package e2e has a table
// for a running gateway and the engine.
func TestBreakages(t *testing.T) {
	// Each row has the check that finds it, its level, and parts of text and remedy.
	for name, row := range map[string]struct {
		spoil              func(t *testing.T, s *servers)
		check, level, says string
		remedy             string
	}{
		"nothing": {spoil: func(*testing.T, *servers) {}},
		"database: another port": {func(_ *testing.T, s *servers) { s.database = "postgres://ann:hidden@127.0.0.1:1/x" },
			"database", "problem", "connection refused", "DATABASE_URL"},
		"database: another name": {func(_ *testing.T, s *servers) { s.database = strings.Replace(s.database, "?host=", "no?host=", 1) },
			"database", "problem", "does not exist", "DATABASE_URL"},
		"redis: away": {func(_ *testing.T, s *servers) { s.redis = "redis://127.0.0.1:1/0" }, "redis", "problem", "refused", "REDIS_URL"},
		"redis: wrong password": {func(t *testing.T, s *servers) { s.set(t, "requirepass", "right") },
			"redis", "problem", "NOAUTH", "REDIS_URL"},
		"redis: evicts everything": {func(t *testing.T, s *servers) { s.set(t, "maxmemory-policy", "allkeys-lru") },
			"redis", "warning", "allkeys-lru", "noeviction"},
		"redis: evicts what expires": {func(t *testing.T, s *servers) { s.set(t, "maxmemory-policy", "volatile-lru") }, "", "", "", ""},
		"redis: keeps nothing":       {func(t *testing.T, s *servers) { s.set(t, "appendonly", "no") }, "redis", "warning", "nothing on disk", "appendonly yes"},
		"redis: full": {func(t *testing.T, s *servers) { s.set(t, "maxmemory", "1") },
			"redis", "problem", "refuses writes", "raise maxmemory"},
		"redis: a replica": {func(t *testing.T, s *servers) { s.set(t, "replicaof", "127.0.0.1 1") },
			"redis", "problem", "refuses writes", "name the primary"},
		"redis: may not write": {func(t *testing.T, s *servers) {
			if err := s.control.Do(t.Context(), "ACL", "SETUSER", "default", "-set").Err(); err != nil {
				t.Fatal(err)
			}
		}, "redis", "problem", "refuses writes", "keys that begin with codehub:"},
		"s3: wrong secret":   {func(_ *testing.T, s *servers) { s.secret += "x" }, "object store", "problem", "", ""},
		"s3: wrong endpoint": {func(_ *testing.T, s *servers) { s.endpoint = "http://127.0.0.1:1" }, "object store", "problem", "", ""},
		"s3: no bucket":      {func(_ *testing.T, s *servers) { s.bucket += "-no" }, "object store", "warning", "", "it creates the bucket"},
		"s3: another's bucket": {func(t *testing.T, s *servers) {
			putObject(t, s.objects, "archives/codehub.json",
				`{"installation": "somebody", "database": "elsewhere", "generation": 1}`)
		}, "object store", "problem", "somebody", "s3 endpoint"},
		"s3: away": {func(t *testing.T, s *servers) {
			store := faulty.NewStore(t, s.endpoint)
			store.Set(faulty.Refuses)
			s.endpoint = store.URL()
		}, "object store", "problem", "", ""},
		"no wildcard name": {func(_ *testing.T, s *servers) { s.site = "domain nowhere.invalid" }, "hosts", "warning", "do not resolve", "wildcard"},
		"paths":            {func(_ *testing.T, s *servers) { s.site = "workspace_url path" }, "hosts", "warning", "share its origin", "workspace_url host"},
		"public_url without https": {func(_ *testing.T, s *servers) { s.site = "public_url http://codehub.example.com" },
			"proxies", "warning", "in the clear", "https://"},
		"public_url of another host": {func(_ *testing.T, s *servers) {
			s.site = "public_url https://codehub.example.com\nmain_host inside.example"
		}, "proxies", "warning", "inside.example", "the same host"},
		"a proxy ends TLS and is not trusted": {func(_ *testing.T, s *servers) { s.site = "public_url https://codehub.example.com" },
			"proxies", "warning", "count as one address", "trusted_proxies"},
		"no max_header_size": {func(_ *testing.T, s *servers) { s.options = "" }, "proxies", "warning", "431", "max_header_size 1MiB"},
		"public_url leads nowhere": {func(_ *testing.T, s *servers) { s.site = "public_url http://127.0.0.1:1" },
			"address", "warning", "nothing has been started", "start Caddy"},
		"no public_url": {func(_ *testing.T, s *servers) { s.site = "" }, "address", "warning", "not set", "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(t)
			row.spoil(t, s)
			outcome, found := s.doctor(t)
			said := false
			for _, l := range found {
				matches := l.Check == row.check && l.Level == row.level && strings.Contains(l.Text, row.says) && strings.Contains(l.Remedy, row.remedy)
				said = said || matches
				// Without an engine, the rows about it are not checked. All other findings belong to the breakage.
				if l.Level == "problem" && l.Check != "engine" && l.Check != row.check {
					t.Errorf("a problem of something else: %+v", l)
				}
				if (l.Level == "ok") != (l.Remedy == "") || l.Text == "" || strings.Contains(l.Text, "hidden") {
					t.Errorf("%+v", l)
				}
			}
			if !said && row.check != "" {
				t.Errorf("no %s of %s that says %q and %q in\n%s", row.level, row.check, row.says, row.remedy, outcome.Stdout)
			}
			if row.check == "" {
				for _, l := range found {
					if l.Check == "redis" && l.Level != "ok" || l.Check == "object store" && l.Level != "ok" {
						t.Errorf("nothing is wrong: %+v", l)
					}
				}
			}
		})
	}
}

// healthy returns working servers with an empty database and bucket.
func healthy(t *testing.T) *servers {
	t.Helper()
	objects, own := devenv.S3(t), devenv.NewRedis(t)
	o, err := redis.ParseURL(own.URL())
	if err != nil {
		t.Fatal(err)
	}
	s := &servers{
		database: devenv.PostgreSQL(t), redis: own.URL(), control: redis.NewClient(o), objects: objects,
		endpoint: objects.Endpoint, bucket: objects.Bucket, key: objects.AccessKey, secret: objects.SecretKey,
		site: "public_url http://localhost:1", options: "max_header_size 1MiB",
	}
	t.Cleanup(func() { _ = s.control.Close() })
	s.set(t, "appendonly", "yes")
	return s
}

// set changes a setting of Redis.
func (s *servers) set(t *testing.T, name, value string) {
	t.Helper()
	var err error
	if name == "replicaof" {
		host, port, _ := strings.Cut(value, " ")
		err = s.control.ReplicaOf(t.Context(), host, port).Err()
	} else {
		err = s.control.ConfigSet(t.Context(), name, value).Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// doctor returns the findings of `doctor --json`.
func (s *servers) doctor(t *testing.T) (commandtest.Outcome, []line) {
	t.Helper()
	caddyfile := filepath.Join(t.TempDir(), "Caddyfile")
	text := fmt.Sprintf(`{
	servers {
		%s
	}
	codehub {
		database %q
		redis %q
		%s
		docker {
			host unix:///nonexistent/docker.sock
		}
		s3 {
			endpoint %s
			bucket %s
			access_key %s
			secret_key %s
		}
	}
}

http://:1 {
	codehub_api
}
`, s.options, s.database, s.redis, s.site, s.endpoint, s.bucket, s.key, s.secret)
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o := commandtest.Run(t, nil, "doctor", "--config", caddyfile, "--json")
	var lines []line
	if err := json.Unmarshal([]byte(o.Stdout), &lines); err != nil {
		t.Fatalf("%v: %s %s", err, o.Stdout, o.Stderr)
	}
	return o, lines
}
