package identity

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestThoseWhoComeDuringACallShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l flight
		calls := 0
		f := func(context.Context) error {
			calls++
			time.Sleep(time.Second)
			return errors.New(string(rune('0' + calls)))
		}
		results := make(chan string, 10)
		ask := func() { results <- l.do(t.Context(), f).Error() }
		go ask()
		synctest.Wait()
		for range 5 {
			go ask()
		}
		time.Sleep(1500 * time.Millisecond) // the second call runs
		go ask()
		time.Sleep(10 * time.Second)
		got := ""
		for range 7 {
			got += <-results
		}
		if got != "1222223" || calls != 3 {
			t.Errorf("%d calls, with the results %s", calls, got)
		}
		synctest.Wait()
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.running || l.next != nil {
			t.Error("a call is still waited for")
		}
	})
}

func TestACallEndsWhenNobodyWaitsForItAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l flight
		ended := make(chan error, 1)
		hang := func(ctx context.Context) error { <-ctx.Done(); ended <- ctx.Err(); return ctx.Err() }
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		long, cancel2 := context.WithTimeout(t.Context(), time.Minute)
		defer cancel2()
		first := make(chan error, 2)
		go func() { first <- l.do(short, hang) }()
		synctest.Wait()
		// The following two callers share the next call, which begins when the first call has been cancelled.
		go func() { first <- l.do(short, hang) }()
		second := make(chan error, 1)
		go func() { second <- l.do(long, hang) }()
		for range 2 {
			if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		<-ended
		synctest.Wait()
		select {
		case <-ended:
			t.Error("the second call has ended although it is waited for")
		default:
		}
		if err := <-second; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		<-ended
	})
}

func TestACallThatAllHaveLeftIsNotGivenToALaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l flight
		slow := func(ctx context.Context) error { time.Sleep(time.Second); return ctx.Err() }
		go func() { _ = l.do(t.Context(), slow) }()
		synctest.Wait()
		gone, cancel := context.WithCancel(t.Context())
		go func() { _ = l.do(gone, slow) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if err := l.do(t.Context(), slow); err != nil {
			t.Error(err)
		}
	})
}
