package codehub

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestSecretsAreRotatedWithoutAGap does what docs/secrets.md describes for PostgreSQL and Redis, while requests go on
// over new connections. It creates a second role and a second password, writes them into the files, and reloads the
// configuration. Then it disables the former role and password. If a file holds something that does not work, the
// reload is refused and nothing changes.
func TestSecretsAreRotatedWithoutAGap(t *testing.T) {
	in := install(t)
	server := devenv.Redis(t)
	roles := twoRoles(t, in.db)
	secrets := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(secrets, name)
		if err := os.WriteFile(path+".new", []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	owner := in.app["database"].(string)
	redisAdmin := redisClient(t, server)
	must := func(do ...any) {
		t.Helper()
		if err := redisAdmin.Do(t.Context(), do...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	must("ACL", "SETUSER", "rotated", "on", ">one", "~*", "&*", "+@all")
	write("DATABASE_URL", as(t, owner, roles[0], ""))
	write("REDIS_URL", as(t, server, "rotated", "one"))
	// One is named by the setting and one by its variable.
	t.Setenv("ROTATED_REDIS_URL", "{file."+secrets+"/REDIS_URL}")
	in.app["database"], in.app["redis"] = "{file."+secrets+"/DATABASE_URL}", "{env.ROTATED_REDIS_URL}"
	// The process leads, so that it needs Redis.
	in.app["coordinator"] = map[string]any{"retry_interval": "1s"}
	if _, err := in.db.Exec(t.Context(), "SELECT pg_advisory_unlock(12345)"); err != nil {
		t.Fatal(err)
	}
	address, listen := sharedSocket(t)
	in.listen = []string{listen}
	reload := func() {
		t.Helper()
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	token := in.signedIn("ann").Do("POST", "/api/v1/tokens", map[string]any{"name": "x", "scopes": []string{"read"}}).Object(t)["token"].(string)
	goOn := askAgainAndAgain(t, address+"/api/v1/workspaces", token)

	sessions := func(role string) (n int) {
		t.Helper()
		if err := in.db.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE usename = $1", role).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	connected := func() bool {
		t.Helper()
		list, err := redisAdmin.ClientList(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(list, " user=rotated ")
	}
	wait.Until(t, "the first role is used", func() bool { return sessions(roles[0]) > 0 && connected() })

	// A reload refuses secrets that do not work, and the former secrets stay in use.
	write("DATABASE_URL", as(t, owner, "nobody_"+roles[0], ""))
	refused := func() {
		t.Helper()
		if err := in.load(); err == nil || !strings.Contains(err.Error(), "database: cannot be reached") {
			t.Errorf("what cannot be used: %v", err)
		}
	}
	refused()
	// Caddy starts apps in any order. So servers often accept requests before it is known that the new secrets do not
	// work.
	write("DATABASE_URL", "postgres://nobody@"+hangsUp(t, 200*time.Millisecond)+"/nothing?sslmode=disable")
	for range 8 {
		refused()
	}
	goOn()

	must("ACL", "SETUSER", "rotated", ">two")
	write("DATABASE_URL", as(t, owner, roles[1], ""))
	write("REDIS_URL", as(t, server, "rotated", "two"))
	reload()
	wait.Until(t, "no connection is left of the former role", func() bool { return sessions(roles[0]) == 0 })
	if _, err := in.db.Exec(t.Context(), "ALTER ROLE "+roles[0]+" NOLOGIN"); err != nil {
		t.Fatal(err)
	}
	must("ACL", "SETUSER", "rotated", "<one")
	if sessions(roles[1]) == 0 {
		t.Error("the second role is not used")
	}
	goOn()
}

// twoRoles returns two roles that act as the owner of the database.
func twoRoles(t *testing.T, db *pgx.Conn) (roles [2]string) {
	t.Helper()
	var owner, name string
	if err := db.QueryRow(t.Context(), "SELECT quote_ident(current_user), current_database()").Scan(&owner, &name); err != nil {
		t.Fatal(err)
	}
	for i := range roles {
		roles[i] = fmt.Sprintf("%s_%d", name, i)
		for _, sql := range []string{"CREATE ROLE %[1]s LOGIN IN ROLE %[2]s", "ALTER ROLE %[1]s SET role = %[2]s"} {
			if _, err := db.Exec(t.Context(), fmt.Sprintf(sql, roles[i], owner)); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if _, err := db.Exec(context.Background(), "DROP ROLE "+roles[i]); err != nil {
				t.Error(err)
			}
		})
	}
	return roles
}

// as returns the address of a server with another user and password in it.
func as(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	if query := u.Query(); query.Has("user") { // as that of the tests' PostgreSQL, which wins
		query.Set("user", user)
		u.RawQuery = query.Encode()
	}
	if u.User = url.User(user); password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// hangsUp returns the address of a server that closes each connection after a while.
func hangsUp(t *testing.T, after time.Duration) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			time.AfterFunc(after, func() { _ = c.Close() })
		}
	}()
	return l.Addr().String()
}

func redisClient(t *testing.T, address string) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// askAgainAndAgain sends requests with an access token until the test ends. Each request uses a connection of its own.
// Each needs the database, and every one must succeed. It returns a function that waits until many more requests have
// succeeded.
func askAgainAndAgain(t *testing.T, address, token string) (goOn func()) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	var answered, failed atomic.Int64
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	ask := func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		r.Host = apitest.Host
		r.Header.Set("Authorization", "Bearer "+token)
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", answer.Status, text)
		}
		return err
	}
	for range 4 {
		clients.Go(func() {
			for ctx.Err() == nil {
				err := ask()
				if answered.Add(1); err != nil && ctx.Err() == nil && failed.Add(1) <= 3 {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(func() {
		stop()
		clients.Wait()
		t.Logf("%d of %d requests failed", failed.Load(), answered.Load())
	})
	return func() {
		t.Helper()
		before := answered.Load()
		wait.Until(t, "requests are answered", func() bool { return answered.Load() > before+100 })
	}
}
