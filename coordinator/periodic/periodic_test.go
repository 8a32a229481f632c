package periodic_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/periodic"
)

// start runs a loop whose rounds send the time since its start; the test is in a
// bubble of synthetic time.
func start(t *testing.T, interval time.Duration, log *zap.Logger, work func() error) (*periodic.Loop, <-chan time.Duration) {
	began, rounds := time.Now(), make(chan time.Duration, 100)
	l := periodic.New("counting", interval, func(context.Context) error {
		rounds <- time.Since(began)
		return work()
	}, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return l, rounds
}

func works() error { return nil }

func TestRunsEveryInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, rounds := start(t, time.Minute, zap.NewNop(), works)
		for i := 1; i <= 3; i++ {
			if at := <-rounds; at != time.Duration(i)*time.Minute {
				t.Fatalf("round %d came after %s", i, at)
			}
		}
	})
}

func TestANewIntervalHoldsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rounds := start(t, 4*time.Hour, zap.NewNop(), works)
		synctest.Wait()
		l.SetInterval(time.Second)
		if at := <-rounds; at != time.Second {
			t.Fatalf("the first round came after %s, not after the new second", at)
		}
	})
}

func TestSettingTheSameIntervalDoesNotPutOffTheNextRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rounds := start(t, time.Minute, zap.NewNop(), works)
		<-time.After(50 * time.Second)
		l.SetInterval(time.Minute)
		if at := <-rounds; at != time.Minute {
			t.Fatalf("the first round came after %s, not after a minute", at)
		}
	})
}

func TestWakeMakesTheNextRoundComeNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, rounds := start(t, time.Hour, zap.NewNop(), works)
		synctest.Wait()
		l.Wake()
		if at := <-rounds; at != 0 {
			t.Fatalf("the round came after %s", at)
		}
		// The interval counts from there.
		if at := <-rounds; at != time.Hour {
			t.Fatalf("the next round came after %s", at)
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

func TestAFaultThatLastsIsSaidOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.InfoLevel)
		errs := []error{errors.New("away"), errors.New("away"), errors.New("away"), nil, nil}
		_, rounds := start(t, time.Minute, zap.New(core), func() error {
			err := errs[0]
			errs = errs[1:]
			if len(errs) == 0 {
				errs = []error{nil}
			}
			return err
		})
		for range 5 {
			<-rounds
		}
		synctest.Wait()
		all := logs.All()
		if len(all) != 2 || all[0].Level != zapcore.ErrorLevel || all[1].Level != zapcore.InfoLevel {
			t.Fatalf("logged %v", all)
		}
	})
}

func TestAnErrorOfStoppingIsNotLogged(t *testing.T) {
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
