package tree

import (
	"errors"
	"testing"
)

// TestFlusherBeginsAtOnceAndGoesOnWithWhatIsWritten: written data is flushed at the beginning and every flushEvery
// bytes, without waiting until the end.
func TestFlusherBeginsAtOnceAndGoesOnWithWhatIsWritten(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	flushes := 0
	first := errors.New("the first flush has failed")
	f := newFlusher(func() error {
		flushes++
		began <- struct{}{}
		<-goOn
		if flushes == 1 {
			return first
		}
		return nil
	})
	<-began
	f.wrote(flushEvery - 1)
	if len(f.due) != 0 {
		t.Error("less than flushEvery is flushed")
	}
	f.wrote(flushEvery)
	f.wrote(3 * flushEvery) // while the first one runs and the second is due
	goOn <- struct{}{}
	<-began
	// The last bytes caused no flush, so the next call must request one.
	f.wrote(3*flushEvery + 1)
	if len(f.due) != 1 {
		t.Error("what was written while a flush was due is not flushed later")
	}
	stopped := make(chan struct{})
	var err error
	go func() { err = f.stop(); close(stopped) }()
	goOn <- struct{}{}
	select {
	case <-stopped: // the flush that was due is dropped
	case <-began: // it had already begun
		goOn <- struct{}{}
		<-stopped
	}
	if !errors.Is(err, first) {
		t.Errorf("the first error is not told: %v", err)
	}
	if flushes < 2 || flushes > 3 {
		t.Errorf("%d flushes", flushes)
	}
}
