package gc

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
)

// asked is a store that reports each request for a collection.
type asked struct {
	Store
	times chan struct{}
	err   error
}

func (a asked) TryExclusive(context.Context, string, string) (*postgres.Exclusive, error) {
	select {
	case a.times <- struct{}{}:
	default:
	}
	return nil, a.err
}

// runUntil runs a collector until that many cycles have begun. Its first cycle begins immediately.
func runUntil(t *testing.T, err error, cycles int) *observer.ObservedLogs {
	t.Helper()
	a := asked{times: make(chan struct{}, cycles), err: err} // none is missed
	core, logs := observer.New(zap.InfoLevel)
	r := New(Options{Store: a}, zap.New(core))
	r.first = time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, postgres.Fence{}, func() bool { return true }) }()
	for range cycles {
		select {
		case <-a.times:
		case <-time.After(wait.Timeout):
			t.Errorf("no cycle begins, although it is due after %s, not after %s", r.first, DefaultInterval)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return logs
}

// Terms shorter than the interval collect as well.
func TestTheFirstCycleDoesNotWaitAnInterval(t *testing.T) {
	runUntil(t, errors.New("away"), 1)
}

func TestACycleThatMeetsAnotherComesAgainSoon(t *testing.T) {
	logs := runUntil(t, &postgres.BusyError{Lock: Lock, Holder: "node-2"}, 3)
	if n := logs.FilterLevelExact(zap.ErrorLevel).Len(); n != 0 || logs.Len() == 0 || logs.All()[0].ContextMap()["holder"] != "node-2" {
		t.Errorf("%d errors; logged %v", n, logs.All())
	}
}
