package periodic_test

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

	"github.com/codehub/gateway/coordinator/internal/periodic"
)

// start runs a loop in a bubble of synthetic time. Each call sends the time since the start.
func start(t *testing.T, interval time.Duration, log *zap.Logger,
	work func() error) (*periodic.Loop, <-chan time.Duration) {
	began, calls := time.Now(), make(chan time.Duration, 100)
	l := periodic.New("counting", interval, func(context.Context) error {
		calls <- time.Since(began)
		return work()
	}, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, calls
}

func works() error { return nil }

func TestRunsEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, calls := start(t, time.Minute, zap.NewNop(), works)
		for i := 1; i <= 3; i++ {
			if at := <-calls; at != time.Duration(i)*time.Minute {
				t.Fatalf("call %d came after %s", i, at)
			}
		}
	})
}

func TestANewIntervalAppliesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, calls := start(t, 4*time.Hour, zap.NewNop(), works)
		synctest.Wait()
		l.SetInterval(time.Second)
		if at := <-calls; at != time.Second {
			t.Fatalf("the first call came after %s, not after the new second", at)
		}
	})
}

func TestSettingTheSameIntervalDoesNotDelayTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, calls := start(t, time.Minute, zap.NewNop(), works)
		<-time.After(50 * time.Second)
		l.SetInterval(time.Minute)
		if at := <-calls; at != time.Minute {
			t.Fatalf("the first call came after %s, not after a minute", at)
		}
	})
}

func TestWakeMakesTheNextCallHappenNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, calls := start(t, time.Hour, zap.NewNop(), works)
		synctest.Wait()
		l.Wake()
		if at := <-calls; at != 0 {
			t.Fatalf("the call came after %s", at)
		}
		// The next interval begins at that call.
		if at := <-calls; at != time.Hour {
			t.Fatalf("the next call came after %s", at)
		}
	})
}

func TestAnIntervalOfZeroDoesNotSpin(t *testing.T) {
	l := periodic.New("counting", 0, func(context.Context) error { return nil }, zap.NewNop())
	if l.Interval() != time.Second {
		t.Fatalf("interval %s", l.Interval())
	}
	l.SetInterval(-1)
	if l.Interval() != time.Second {
		t.Fatalf("interval %s", l.Interval())
	}
}

func TestALastingFaultIsLoggedOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		errs := []error{errors.New("away"), errors.New("away"), errors.New("away"), nil, nil}
		_, calls := start(t, time.Minute, zap.New(core), func() error {
			err := errs[0]
			errs = errs[1:]
			if len(errs) == 0 {
				errs = []error{nil}
			}
			return err
		})
		for range 5 {
			<-calls
		}
		synctest.Wait()
		all := logs.All()
		if len(all) != 2 || all[0].Level != zapcore.WarnLevel || all[1].Level != zapcore.InfoLevel {
			t.Fatalf("logged %v", all)
		}
	})
}

func TestAnErrorDueToStoppingIsNotLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.DebugLevel)
		ctx, cancel := context.WithCancel(t.Context())
		l := periodic.New("waiting", time.Second, func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}, zap.New(core))
		l.Run(ctx)
		if logs.Len() != 0 {
			t.Fatalf("logged %v", logs.All())
		}
	})
}

func TestAPanicSkipsOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		panics := true
		_, calls := start(t, time.Minute, zap.New(core), func() error {
			if panics {
				panics = false
				panic("broken")
			}
			return nil
		})
		if first, second := <-calls, <-calls; second-first != time.Minute {
			t.Errorf("the next call came after %s", second-first)
		}
		synctest.Wait()
		if all := logs.All(); len(all) != 2 || all[0].Level != zapcore.ErrorLevel || all[0].ContextMap()["stack"] == "" {
			t.Errorf("logged %v", all)
		}
	})
}

func TestRunNowBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		begin := time.Now()
		var calls []time.Duration
		err := periodic.New("waiting", time.Minute, func(context.Context) error {
			if calls = append(calls, time.Since(begin)); len(calls) == 3 {
				cancel()
			}
			return nil
		}, zap.NewNop()).RunNow(ctx)
		if want := []time.Duration{0, time.Minute, 2 * time.Minute}; err != nil || !slices.Equal(calls, want) {
			t.Errorf("called after %v, %v, want %v", calls, err, want)
		}
	})
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		if !periodic.Pause(t.Context(), time.Minute) || time.Since(begin) != time.Minute {
			t.Error("a whole pause is not reported")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if begin = time.Now(); periodic.Pause(ctx, time.Minute) || time.Since(begin) != time.Second {
			t.Error("the end of the context is not reported")
		}
	})
}
