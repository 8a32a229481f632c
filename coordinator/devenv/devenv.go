// Package devenv gives tests real servers: PostgreSQL, Redis and S3, private to the test
// binary, and the Docker engine of `make test`.
//
// Each helper fails the test when its server is missing: nothing is skipped. Servers end
// with the test binary, however it ends (see [server.Process]); a test's own database,
// bucket or Redis ends with the test. Programs must not import this package.
package devenv

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// postgres is the server that all tests of this binary share.
var postgres = sync.OnceValues(startPostgreSQL)

func startPostgreSQL() (*server.PostgreSQL, error) {
	s, err := server.Scratch(true)
	if err != nil {
		return nil, err
	}
	return server.StartPostgreSQL(s)
}

// PostgreSQL returns the URL of an empty database for this test alone.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	return database(t, (*server.PostgreSQL).CreateDatabase)
}

// CopiedPostgreSQL returns a function that returns the URL of a database for one test. That database is a copy of a
// template, which fill fills and closes once per test binary. Copying takes a tenth of the time of the migrations.
func CopiedPostgreSQL(fill func(ctx context.Context, dsn string) error) func(t testing.TB) string {
	original := sync.OnceValues(func() (name string, err error) {
		pg, err := postgres()
		if err != nil {
			return "", err
		}
		name = "original_" + uniqueName()
		if err := pg.CreateDatabase(context.Background(), name); err != nil {
			return "", err
		}
		return name, fill(context.Background(), pg.DSN(name))
	})
	return func(t testing.TB) string {
		t.Helper()
		of, err := original()
		if err != nil {
			t.Fatal(err)
		}
		return database(t, func(pg *server.PostgreSQL, ctx context.Context, name string) error {
			return pg.CopyDatabase(ctx, name, of)
		})
	}
}

// database returns the URL of a database for this test alone. create creates it.
func database(t testing.TB, create func(pg *server.PostgreSQL, ctx context.Context, name string) error) string {
	t.Helper()
	pg, err := postgres()
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + uniqueName()
	if err := create(pg, t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// By now, t's context has ended.
		ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
		defer cancel()
		if err := pg.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return pg.DSN(name)
}

// NewPostgreSQL starts a server for this test alone, so that the test may stop it. It returns the server and the URL
// of an empty database.
func NewPostgreSQL(t testing.TB) (*server.PostgreSQL, string) {
	t.Helper()
	pg, err := startPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, pg) })
	if err := pg.CreateDatabase(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	return pg, pg.DSN("test")
}

// Redis returns the URL of an empty Redis server for this test alone. All databases of a Redis server share its
// channels, so one database per test would not be enough.
func Redis(t testing.TB) string {
	t.Helper()
	return NewRedis(t).URL()
}

// RestartableRedis is [Redis] for a test that stops the server and starts it again at the
// same address.
func RestartableRedis(t testing.TB) (url string, stop, start func()) {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	var s *server.Redis
	start = func() {
		t.Helper()
		if s, err = server.StartRedis(server.Storage{Dir: dir + "/data", Sockets: dir + "/run"}); err != nil {
			t.Fatal(err)
		}
	}
	stop = func() {
		t.Helper()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	start()
	t.Cleanup(func() {
		_ = s.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s.URL(), stop, start
}

// NewRedis is [Redis] for a test that wants to stop the server.
func NewRedis(t testing.TB) *server.Redis {
	t.Helper()
	s, err := server.Scratch(true)
	if err != nil {
		t.Fatal(err)
	}
	r, err := server.StartRedis(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, r) })
	return r
}

func stop(t testing.TB, s interface{ Stop() error }) {
	t.Helper()
	if err := s.Stop(); err != nil {
		t.Errorf("stopping a private server: %v", err)
	}
}

// Installation returns a new name for a test's installation. The name contains the run's id, because other runs may use
// the same engine.
func Installation(prefix string) string {
	return prefix + "-" + os.Getenv(server.RunEnv) + strings.ToLower(rand.Text()[:8])
}

func uniqueName() string { return strings.ToLower(rand.Text()[:16]) }
