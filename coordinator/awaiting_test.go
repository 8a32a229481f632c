package coordinator

import (
	"context"
	"errors"
	"os"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestAStartWaitsForPostgreSQL: a process may start before its database does. It logs once that it waits for the
// database, and once that it continues.
func TestAStartWaitsForPostgreSQL(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "pg") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	start := func() *server.PostgreSQL {
		pg, err := server.StartPostgreSQL(server.Storage{Dir: dir + "/data", Sockets: dir + "/run"})
		if err != nil {
			t.Fatal(err)
		}
		return pg
	}
	pg := start()
	if err := pg.CreateDatabase(t.Context(), "late"); err != nil {
		t.Fatal(err)
	}
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	c, err := New(options(t, pg.DSN("late"), "one"), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	const waits, goesOn = "waits with its start until PostgreSQL", "PostgreSQL can be reached: this process starts"
	said := func(text string) int { return logs.FilterMessageSnippet(text).Len() }

	ctx, cancel := context.WithCancel(t.Context())
	awaited := make(chan error, 1)
	go func() { awaited <- c.AwaitDatabase(ctx) }()
	wait.Until(t, "the log says what it waits for", func() bool { return said(waits) == 1 })
	cancel()
	if err := <-awaited; !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with its context, and says %v", err)
	}

	go func() { awaited <- c.AwaitDatabase(t.Context()) }()
	wait.Until(t, "it waits again", func() bool { return said(waits) == 2 })
	pg = start()
	t.Cleanup(func() { _ = pg.Stop() })
	if err := <-awaited; err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context()); err != nil {
		t.Error(err)
	}
	if said(goesOn) != 1 {
		t.Errorf("the log does not say once that it goes on: %v", logs.All())
	}

	// A database that does not exist is no reason to wait: the start reports the error.
	other, err := New(options(t, pg.DSN("absent"), "two"), zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, other) })
	if err := other.AwaitDatabase(t.Context()); err != nil || said(waits) != 2 {
		t.Errorf("it waits for a database that does not exist: %v", err)
	}
	if err := other.Start(t.Context()); err == nil {
		t.Error("it starts without its database")
	}
}
