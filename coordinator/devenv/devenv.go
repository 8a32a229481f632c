// Package devenv gives tests real servers: PostgreSQL, Redis, S3 and a Docker
// engine, private to the test run.
//
// Each helper fails the test when its server cannot be had: nothing is skipped.
// Servers belong to the test binary and end with it, however it ends (see
// [server.Guard]); a test's own database, bucket or Redis ends with the test.
package devenv

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// postgres is the server that all tests of this binary share.
var postgres = sync.OnceValues(server.StartScratchPostgreSQL)

// PostgreSQL returns the URL of an empty database that is the test's own.
func PostgreSQL(t testing.TB) string {
	t.Helper()
	pg, err := postgres()
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + uniqueName()
	if err := pg.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// t's context has ended by now.
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := pg.DropDatabase(ctx, name); err != nil {
			t.Error(err)
		}
	})
	return pg.DSN(name)
}

// NewPostgreSQL starts a server that is the test's own, so that the test may stop
// it, and returns it with the URL of an empty database.
func NewPostgreSQL(t testing.TB) (*server.PostgreSQL, string) {
	t.Helper()
	pg, err := server.StartScratchPostgreSQL()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, pg) })
	if err := pg.CreateDatabase(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	return pg, pg.DSN("test")
}

// Redis returns the URL of an empty Redis server that is the test's own: channels
// are shared by all databases of a server, so a database each would not do.
func Redis(t testing.TB) string {
	t.Helper()
	return NewRedis(t).URL()
}

// NewRedis is [Redis] for a test that wants to stop and start the server.
func NewRedis(t testing.TB) *server.Redis {
	t.Helper()
	r, err := server.StartScratchRedis()
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

func uniqueName() string { return strings.ToLower(rand.Text()[:16]) }
