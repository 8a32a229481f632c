package outage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/outage"
)

var errAway = errors.New("away")

func observed(level, failure zapcore.Level, recovered string) (*outage.Reporter, *observer.ObservedLogs) {
	core, logs := observer.New(level)
	return outage.New(zap.New(core), failure, "cannot reach it", recovered), logs
}

func TestAnOutageIsLoggedOnceAndSoIsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, logs := observed(zap.InfoLevel, zap.WarnLevel, "reached again")
		r.Recovered() // no outage: nothing to say
		r.Failed(errAway, zap.String("workspace", "w"))
		time.Sleep(time.Minute)
		r.Failed(errors.New("still away"))
		time.Sleep(time.Minute)
		r.Recovered(zap.Int("dropped", 3))
		r.Recovered()
		all := logs.All()
		if len(all) != 2 {
			t.Fatalf("%d lines: %v", len(all), all)
		}
		first, last := all[0], all[1]
		if first.Level != zap.WarnLevel || first.Message != "cannot reach it" ||
			first.ContextMap()["error"] != "away" || first.ContextMap()["workspace"] != "w" {
			t.Errorf("the outage begins with %+v", first)
		}
		if last.Level != zap.InfoLevel || last.Message != "reached again" ||
			last.ContextMap()["outage"] != 2*time.Minute || last.ContextMap()["dropped"] != int64(3) {
			t.Errorf("the outage ends with %+v", last)
		}

		r.Failed(errAway)
		time.Sleep(time.Second)
		r.Recovered()
		if all := logs.All(); len(all) != 4 || all[3].ContextMap()["outage"] != time.Second {
			t.Errorf("the second outage is not reported like the first: %v", all)
		}
	})
}

func TestRepeatedFailuresAppearAtDebugLevel(t *testing.T) {
	r, logs := observed(zap.DebugLevel, zap.ErrorLevel, "")
	r.Failed(errAway)
	r.Failed(errAway)
	r.Recovered()
	r.Failed(errAway)
	var levels []zapcore.Level
	for _, l := range logs.All() {
		levels = append(levels, l.Level)
	}
	want := []zapcore.Level{zap.ErrorLevel, zap.DebugLevel, zap.ErrorLevel}
	if len(levels) != len(want) || levels[0] != want[0] || levels[1] != want[1] || levels[2] != want[2] {
		t.Fatalf("levels %v, want %v and no line for the end", levels, want)
	}
}

func TestReport(t *testing.T) {
	r, logs := observed(zap.InfoLevel, zap.ErrorLevel, "reached again")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	r.Report(ended, context.Canceled)
	if logs.Len() != 0 {
		t.Fatalf("an attempt that was cancelled is reported: %v", logs.All())
	}
	r.Report(t.Context(), errAway)
	r.Report(ended, context.Canceled)
	r.Report(t.Context(), nil)
	if all := logs.All(); len(all) != 2 || all[0].Message != "cannot reach it" || all[1].Message != "reached again" {
		t.Fatalf("logged %v", all)
	}
}

// TestFieldsAreNotOverwritten: the fields belong to the caller, who may pass the same slice again.
func TestFieldsAreNotOverwritten(t *testing.T) {
	r, _ := observed(zap.InfoLevel, zap.ErrorLevel, "reached again")
	backing := []zap.Field{zap.String("a", "a"), zap.String("b", "b")}
	r.Failed(errAway, backing[:1]...)
	r.Recovered(backing[:1]...)
	if backing[1].Key != "b" {
		t.Fatalf("the caller's slice now holds %v", backing[1])
	}
}

func TestOneBeginningAmongManyAtOnce(t *testing.T) {
	r, logs := observed(zap.InfoLevel, zap.ErrorLevel, "reached again")
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { r.Failed(errAway) })
	}
	wg.Wait()
	for range 50 {
		wg.Go(func() { r.Recovered() })
	}
	wg.Wait()
	if logs.Len() != 2 {
		t.Fatalf("%d lines, want one beginning and one end", logs.Len())
	}
}

func TestAPanicIsLoggedOnceWithItsStackAlsoInAnOutageOfAnotherCause(t *testing.T) {
	r, logs := observed(zap.InfoLevel, zap.WarnLevel, "")
	r.Failed(errAway)
	for range 2 {
		r.Failed(guard.Call(guard.Task, func() error { panic("broken") }))
	}
	all := logs.All()
	if len(all) != 2 || all[1].Level != zap.ErrorLevel || all[1].ContextMap()["stack"] == "" {
		t.Fatalf("logged %v", all)
	}
	if _, has := all[0].ContextMap()["stack"]; has {
		t.Errorf("an error has a stack: %v", all[0])
	}
}
