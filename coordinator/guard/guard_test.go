package guard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/guard"
)

func TestAPanicBecomesAnErrorWithItsStack(t *testing.T) {
	before := guard.Counted(guard.Workspace)
	err := guard.Call(guard.Workspace, func() error { panic("broken") })
	if !guard.Panicked(fmt.Errorf("deciding: %w", err)) || !strings.Contains(err.Error(), "broken") {
		t.Fatalf("the error is %v", err)
	}
	if f := guard.Stack(err); !strings.Contains(f.String, "TestAPanicBecomesAnErrorWithItsStack") {
		t.Errorf("the stack does not name the place: %s", f.String)
	}
	if n := guard.Counted(guard.Workspace) - before; n != 1 {
		t.Errorf("counted %d times", n)
	}
}

func TestAnErrorPassesAsItIs(t *testing.T) {
	err := guard.Call(guard.Task, func() error { return io.EOF })
	if err != io.EOF || guard.Panicked(err) || guard.Stack(err).Type != zapcore.SkipType {
		t.Fatalf("got %v", err)
	}
	if err := guard.Call(guard.Task, func() error { panic(io.EOF) }); !errors.Is(err, io.EOF) {
		t.Errorf("the error that was the panic's value is lost: %v", err)
	}
}

// A component that panicked ends completely, and is restarted after pauses that grow. After a time without panics, the
// pauses begin again with the first one.
func TestAComponentIsStartedAgainWithGrowingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		var begins []time.Time
		var last context.Context
		err := guard.Keep(t.Context(), zap.New(core), "census", 0, func(ctx context.Context) error {
			if last != nil && last.Err() == nil {
				t.Error("the context of the run before goes on")
			}
			last = ctx
			begins = append(begins, time.Now())
			switch len(begins) {
			case 4:
				time.Sleep(time.Hour)
				panic("late")
			case 6:
				return io.EOF
			}
			panic("early")
		})
		if err != io.EOF || len(begins) != 6 {
			t.Fatalf("%v after %d runs", err, len(begins))
		}
		for i, want := range []time.Duration{1, 2, 4} {
			if pause := begins[i+1].Sub(begins[i]); pause < want*time.Second*3/4 || pause > want*time.Second*5/4 {
				t.Errorf("pause %d took %s", i, pause)
			}
		}
		if pause := begins[4].Sub(begins[3]) - time.Hour; pause > 2*time.Second {
			t.Errorf("after an hour without a panic the pause is %s", pause)
		}
		if all := logs.FilterMessage("a component panicked; it is restarted").All(); len(all) != 5 ||
			all[0].ContextMap()["component"] != "census" || all[0].ContextMap()["stack"] == "" {
			t.Errorf("logged %v", logs.All())
		}
	})
}

func TestSoManyPanicsInARowAsTheLimitAllowsEndAComponent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		runs := 0
		err := guard.Keep(t.Context(), zap.New(core), "controller", 3, func(context.Context) error { runs++; panic("broken") })
		if runs != 3 || !guard.Panicked(err) {
			t.Fatalf("%d runs, %v", runs, err)
		}
		if logs.Len() != 2 { // the caller logs the last panic, without a restart
			t.Errorf("logged %v", logs.All())
		}
	})
}

func TestTheEndOfTheContextEndsThePause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	if err := guard.Keep(ctx, zap.NewNop(), "x", 0, func(context.Context) error { cancel(); panic("broken") }); err != nil {
		t.Fatal(err)
	}
}

func TestAGoroutineThatNobodyWaitsForIsLogged(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	guard.LogTo(zap.New(core))
	defer guard.LogTo(nil)
	guard.Run("probing", func() { panic("broken") })
	if all := logs.All(); len(all) != 1 || all[0].ContextMap()["component"] != "probing" || all[0].ContextMap()["stack"] == "" {
		t.Fatalf("logged %v", all)
	}
}
