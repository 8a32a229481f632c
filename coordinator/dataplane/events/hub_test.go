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
	c1, cancel := h.Subscribe(ann, func() {})
	defer cancel()
	c2, cancel2 := h.Subscribe(ann, func() {})
	defer cancel2()
	b, cancel3 := h.Subscribe(ben, func() {})
	defer cancel3()
	h.Changed([]store.Route{{ID: ws, OwnerID: ann}, {ID: other, OwnerID: ben}}, 5)
	h.Changed(nil, 6)
	h.Changed([]store.Route{{ID: ws, OwnerID: ann, Deleted: true}}, 6)
	for _, c := range []<-chan events.Change{c1, c2} {
		for _, want := range []events.Event{{Type: events.Updated, ID: ws}, {Type: events.Deleted, ID: ws}} {
			if e := next(t, c).Event; e != want {
				t.Fatalf("got %+v, want %+v", e, want)
			}
		}
	}
	if e := next(t, b).Event; e != (events.Event{Type: events.Updated, ID: other}) {
		t.Fatalf("the other user got %+v", e)
	}
	if len(c1)+len(c2)+len(b) != 0 {
		t.Fatal("further events arrive")
	}
	h.Reset(0)
	for _, c := range []<-chan events.Change{c1, c2, b} {
		if e := next(t, c); e.Type != events.Resync {
			t.Fatalf("after the reset of the database: %+v", e)
		}
	}
}

func TestAStreamThatIsTooSlowEndsAndTheOthersContinue(t *testing.T) {
	h := events.NewHub()
	told := 0
	slow, cancelSlow := h.Subscribe(ann, func() { told++ })
	defer cancelSlow()
	quick, cancelQuick := h.Subscribe(ann, func() {})
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
	if told != 1 {
		t.Fatalf("it was told %d times that it is too slow", told)
	}
	if h.Streams() != 1 {
		t.Fatalf("%d streams are open", h.Streams())
	}
	cancelSlow()
	cancelSlow()
	cancelQuick()
	if _, ok := <-quick; ok || h.Streams() != 0 {
		t.Fatal("a cancelled stream is still open")
	}
}

func TestStoppingEndsEveryStream(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	h := events.NewHub()
	c, cancel := h.Subscribe(ann, func() {})
	stop := run(t, h.Run)
	stop()
	for range c {
	}
	cancel()
	late, cancelLate := h.Subscribe(ann, func() {})
	if _, ok := <-late; ok {
		t.Fatal("a stream opens after the end")
	}
	cancelLate()
	wait.NoGoroutines(t, ignore)
}

// TestStreamsShareWhatTheyRead: the streams of one workspace, and of workspaces that change together, share one reading.
func TestStreamsShareWhatTheyRead(t *testing.T) {
	h := events.NewHub()
	var all []<-chan events.Change
	for _, user := range []string{ann, ann, ben} {
		c, cancel := h.Subscribe(user, func() {})
		defer cancel()
		all = append(all, c)
	}
	readings, made := 0, 0
	h.Changed([]store.Route{{ID: ws, OwnerID: ann}, {ID: other, OwnerID: ben}, {ID: "no stream", OwnerID: "cho"}}, 5)
	for i, c := range all {
		change := next(t, c)
		w, found, err := change.Workspace(func(ids []workspace.ID) ([]workspace.Workspace, error) {
			readings++
			if len(ids) != 2 {
				t.Errorf("%v are read", ids)
			}
			return []workspace.Workspace{{ID: ws, Name: "one"}}, nil
		})
		if isHers := i < 2; err != nil || found != isHers || found && w.Name != "one" {
			t.Errorf("%v, %v, %v", w, found, err)
		}
		for range 2 {
			text, err := change.Once(i == 2, func() ([]byte, error) { made++; return []byte("text"), nil })
			if err != nil || string(text) != "text" {
				t.Errorf("%s, %v", text, err)
			}
		}
	}
	if readings != 1 || made != 2 {
		t.Errorf("read %d times, made %d times", readings, made)
	}
}

func TestThePositionIsThatOfTheFeed(t *testing.T) {
	h := events.NewHub()
	if p := h.Position(); p != (store.Position{}) {
		t.Errorf("at first it is %v", p)
	}
	want := store.Position{Revision: 7, Origin: "here", Oldest: 12, Next: 14}
	h.Passed(want)
	if p := h.Position(); p != want {
		t.Errorf("got %v, want %v", p, want)
	}
}
