package tree

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// flushEvery is how much content of small files is written, in bytes, before the file system is asked to flush it to
// disk. Each flush makes the file system commit its journal, and other programs that write to it wait for that commit,
// too.
const flushEvery = 32 << 20

// flusher flushes small files to disk while more are unpacked, so that the disk is not idle until [Volume.Commit]
// waits for it. It also flushes unwritten data of other writers, because Commit waits for it, too.
//
// Nothing relies on the flushed data: Commit waits for everything. But the error of a flush counts. If pages could not
// be written, the kernel also tells Commit. If a disk failed to empty its cache, the kernel tells only the caller of
// that flush.
//
// One goroutine calls its methods.
type flusher struct {
	begun   int64         // total written when the last flush became due
	due     chan struct{} // at most one waits
	running sync.WaitGroup
	failed  error // the first error; stop reads it after running has ended
}

// newFlusher returns a flusher that calls flush once immediately, and then whenever enough was written. stop must be
// called.
func newFlusher(flush func() error) *flusher {
	f := &flusher{due: make(chan struct{}, 1)}
	f.due <- struct{}{}
	f.running.Go(func() {
		for range f.due {
			if err := flush(); f.failed == nil {
				f.failed = err
			}
		}
	})
	return f
}

// flushAt flushes the file system of an open folder. Nothing else may use that descriptor: the kernel reports a disk
// error once per descriptor, and Commit must see it.
func flushAt(dir *os.File) func() error {
	return func() error { return unix.Syncfs(int(dir.Fd())) }
}

// wrote reports the total number of bytes written so far. It does not wait.
func (f *flusher) wrote(sum int64) {
	if sum-f.begun < flushEvery {
		return
	}
	select {
	case f.due <- struct{}{}:
		f.begun = sum
	default: // one is due already
	}
}

// stop waits for the running flush, drops one that has not begun, and returns the first error of all flushes.
func (f *flusher) stop() error {
	select {
	case <-f.due:
	default:
	}
	close(f.due)
	f.running.Wait()
	return f.failed
}
