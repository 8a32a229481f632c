package events_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	ws    = workspace.ID("00000000-0000-4000-8000-000000000001")
	other = workspace.ID("00000000-0000-4000-8000-000000000002")
	ann   = "00000000-0000-4000-8000-00000000a001"
	ben   = "00000000-0000-4000-8000-00000000b002"
)

func TestAChangeReachesTheStreamsOfItsOwnerOnly(t *testing.T) {
	h := events.NewHub()
	c1, cancel := h.Subscribe(ann)
	defer cancel()
	c2, cancel2 := h.Subscribe(ann)
	defer cancel2()
	b, cancel3 := h.Subscribe(ben)
	defer cancel3()
	h.Changed([]store.Route{{ID: ws, OwnerID: ann}, {ID: other, OwnerID: ben}}, 5)
	h.Changed(nil, 6)
	h.Changed([]store.Route{{ID: ws, OwnerID: ann, Deleted: true}}, 6)
	for _, c := range []<-chan events.Event{c1, c2} {
		for _, want := range []events.Event{{Type: events.Updated, ID: ws}, {Type: events.Deleted, ID: ws}} {
			if e := next(t, c); e != want {
				t.Fatalf("got %+v, want %+v", e, want)
			}
		}
	}
	if e := next(t, b); e != (events.Event{Type: events.Updated, ID: other}) {
		t.Fatalf("the other user got %+v", e)
	}
	if len(c1)+len(c2)+len(b) != 0 {
		t.Fatal("further events arrive")
	}
	h.Reset(0)
	for _, c := range []<-chan events.Event{c1, c2, b} {
		if e := next(t, c); e.Type != events.Resync {
			t.Fatalf("after the reset of the database: %+v", e)
		}
	}
}

func TestAStreamThatIsTooSlowEndsAndTheOthersContinue(t *testing.T) {
	h := events.NewHub()
	slow, cancelSlow := h.Subscribe(ann)
	defer cancelSlow()
	quick, cancelQuick := h.Subscribe(ann)
	defer cancelQuick()
	for range 1000 {
		h.Changed([]store.Route{{ID: ws, OwnerID: ann}}, 0)
		next(t, quick)
	}
	behind := 0
	for range slow {
		behind++
	}
	if behind == 0 || behind >= 1000 {
		t.Fatalf("the slow stream got %d events before it ended", behind)
	}
	if h.Subscribers() != 1 {
		t.Fatalf("%d streams are open", h.Subscribers())
	}
	cancelSlow()
	cancelSlow()
	cancelQuick()
	if _, ok := <-quick; ok || h.Subscribers() != 0 {
		t.Fatal("a cancelled stream is still open")
	}
}

func TestStoppingEndsEveryStream(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	h := events.NewHub()
	c, cancel := h.Subscribe(ann)
	stop := run(t, h.Run)
	stop()
	for range c {
	}
	cancel()
	late, cancelLate := h.Subscribe(ann)
	if _, ok := <-late; ok {
		t.Fatal("a stream opens after the end")
	}
	cancelLate()
	wait.NoGoroutines(t, ignore)
}
