package finalizer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// kept is a backend whose containers are kept.
type kept struct {
	backend.Core
	events func() (<-chan workspace.ID, error)
	asked  []workspace.ID // one after the other; "" for all
	fails  error
}

func (k *kept) Events(context.Context) (<-chan workspace.ID, error) { return k.events() }

func (k *kept) RemoveFinalizers(_ context.Context, _ func(context.Context) error, ids ...workspace.ID) error {
	if len(ids) == 0 {
		ids = []workspace.ID{""}
	}
	k.asked = append(k.asked, ids...)
	return k.fails
}

// TestRelease: ended containers are released when the finalizer starts, with every event, and every minute in case
// events were lost. If the stream of events ends, or does not begin, it is requested again.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logged, lines := observer.New(zapcore.WarnLevel)
		streams := make(chan chan workspace.ID, 1)
		subscribed := 0
		k := &kept{events: func() (<-chan workspace.ID, error) {
			subscribed++
			select {
			case s := <-streams:
				return s, nil
			default:
				return nil, errors.New("it does not answer")
			}
		}}
		was := func(what string, want ...workspace.ID) {
			t.Helper()
			synctest.Wait()
			if !slices.Equal(k.asked, want) {
				t.Errorf("%s: asked for %q, want %q", what, k.asked, want)
			}
			k.asked = nil
		}
		first := make(chan workspace.ID)
		streams <- first
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- New(backend.Backend{Core: k, RemoveFinalizers: k.RemoveFinalizers}, nil, zap.New(logged)).Run(ctx)
		}()
		was("at the beginning", "")
		first <- "a"
		first <- "b"
		was("with each event", "a", "b")
		time.Sleep(interval)
		was("after a minute", "")

		for _, one := range []workspace.ID{"a", "b", "a"} {
			if k.fails = nil; one == "a" {
				k.fails = errors.New("refused")
			}
			first <- one
			was("while one cannot be let go", one)
		}
		if n := lines.Len(); n != 1 {
			t.Errorf("that one cannot be let go was logged %d times: %v", n, lines.All())
		}
		k.fails = nil
		close(first)
		was("when the events have ended")
		time.Sleep(retry)
		was("a moment later", "")
		time.Sleep(retry)
		was("while there are no events", "")
		second := make(chan workspace.ID)
		streams <- second
		time.Sleep(retry)
		was("when there are events again", "")
		second <- "c"
		was("with each of them", "c")
		if subscribed != 4 {
			t.Errorf("events were asked for %d times", subscribed)
		}
		cancel()
		close(second) // as the backend does when the context ends
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestNothingToRelease: a backend that keeps no ended containers, such as Docker, is not asked to release any.
func TestNothingToRelease(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(backend.Backend{}, nil, zap.NewNop()).Run(ctx); err != nil {
		t.Error(err)
	}
}
