package upgrade

import (
	"bytes"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// written is what a client gets.
type written struct {
	mu sync.Mutex
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(p)
}

// take returns the bytes that have arrived since the last call.
func (w *written) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.Reset()
	return bytes.Clone(w.Bytes())
}

// TestAConnectionIsKeptWhileItsOtherEndStandsStill, no longer than that, and only between messages.
func TestAConnectionIsKeptWhileItsOtherEndStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		is, changed := false, make(chan struct{})
		set := func(now bool) {
			mu.Lock()
			defer mu.Unlock()
			is = now
			close(changed)
			changed = make(chan struct{})
		}
		var client written
		ended := make(chan struct{})
		o := &outlet{to: &client, counter: counter{meter: nothing{}, webSocket: true}}
		go o.keep(func() (bool, <-chan struct{}) { mu.Lock(); defer mu.Unlock(); return is, changed }, ended)
		expect := func(when string, times int) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			got := client.take()
			if sent := bytes.Count(got, keepAlive); sent*len(keepAlive) != len(got) || (sent > 0) != (times > 0) || sent > times {
				t.Errorf("%s the client gets %d signs of life in a minute: %x", when, sent, got)
			}
		}
		write := func(p ...byte) {
			if _, err := o.Write(p); err != nil {
				t.Fatal(err)
			}
			client.take()
		}
		expect("while it goes on", 0)
		set(true)
		expect("while it stands still", 12)
		write(0x82, 3, 'a')
		expect("within a frame", 0)
		write('b', 'c')
		expect("after it", 12)
		write(0x02, 1, 'a')
		expect("between the frames of a message", 0)
		write(0x80, 1, 'b')
		expect("after the message", 12)
		set(false)
		expect("when it goes on", 0)
		set(true)
		o.close()
		expect("when the request is over", 0)
		close(ended)
	})
}

func TestWhichConnectionsAreKept(t *testing.T) {
	for query, want := range map[string]bool{
		"reconnectionToken=1&reconnection=false&skipWebSocketFrames=false": true,
		"reconnectionToken=1&skipWebSocketFrames=true":                     false,
		"session_id=1": false,
		"":             false,
	} {
		if got := speaksVSCode(httptest.NewRequest("GET", "/?"+query, nil)); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
}
