package recent_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/internal/recent"
)

func TestManyWhoAskCostOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := recent.Answers[string, int]{Age: time.Second}
		var asked atomic.Int64
		ask := func(context.Context) (int, error) {
			<-time.After(100 * time.Millisecond)
			return int(asked.Add(1)), errors.New("with an error")
		}
		get := func(key string, want int) {
			t.Helper()
			if got, err := answers.Get(t.Context(), key, ask); got != want || err == nil {
				t.Errorf("got %d, %v; want %d", got, err, want)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { get("a", 1) })
		}
		all.Wait()
		<-time.After(999 * time.Millisecond)
		get("a", 1)
		get("b", 2)
		<-time.After(time.Millisecond)
		get("a", 3)

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, asks := range []string{"the first one", "another one"} {
			if _, err := answers.Get(ctx, "c", ask); !errors.Is(err, context.Canceled) {
				t.Errorf("%s has left, and waits: %v", asks, err)
			}
		}
		get("c", 4) // the answer to the question of the first caller
	})
}
