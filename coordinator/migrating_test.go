package coordinator

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestAStartWaitsForTheSchema: while another session holds a lock that a migration needs, the start waits, and
// the log names the session. The start gives up when its context ends, and continues when the lock is free.
func TestAStartWaitsForTheSchema(t *testing.T) {
	t.Parallel()
	o := options(t, devenv.PostgreSQL(t), "one")
	held, err := pgx.Connect(t.Context(), o.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close(context.WithoutCancel(t.Context()))
	if _, err := held.Exec(t.Context(), "SET application_name = 'backup'; SELECT pg_advisory_lock(9628173550095224)"); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	c, err := New(o, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	starting := func(ctx context.Context) chan error {
		before, started := logs.Len(), make(chan error, 1)
		go func() { started <- c.Start(ctx) }()
		wait.Until(t, "the log says why it waits", func() bool { return logs.Len() > before })
		line := logs.All()[before]
		if text, _ := line.ContextMap()["message"].(string); !strings.Contains(text, "application backup") {
			t.Errorf("%s: %v", line.Message, line.ContextMap())
		}
		return started
	}
	ctx, cancel := context.WithCancel(t.Context())
	started := starting(ctx)
	cancel()
	if err := <-started; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	started = starting(t.Context())
	if err := held.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
}
