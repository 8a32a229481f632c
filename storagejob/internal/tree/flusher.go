package tree

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// flushEvery is how much content of small files is written before the file system is asked
// to bring it to the disk, in bytes. Each time costs a commit of its journal, for which the
// other programs that write to it wait, too.
const flushEvery = 32 << 20

// flusher brings small files to the disk while more are unpacked, so that the disk does not
// rest until [Volume.Commit] waits for it. It begins with what others have left to write,
// because Commit waits for that, too.
//
// Nothing relies on what it has written: Commit waits for everything. But an error counts. The
// kernel tells Commit of pages that were not written. That a disk has failed to empty its cache
// it tells only the caller of that flush.
//
// One goroutine calls its methods.
type flusher struct {
	begun   int64         // how much was written when the last flush became due
	due     chan struct{} // at most one waits
	running sync.WaitGroup
	failed  error // the first one; for stop, once running has ended
}

// newFlusher returns a flusher that calls flush, for as long as that takes, also at once.
// The method stop must be called.
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

// flushAt flushes the file system of an open folder. Nothing else may use that descriptor:
// the kernel tells an error of the disk once to each, and Commit has to learn of it.
func flushAt(dir *os.File) func() error {
	return func() error { return unix.Syncfs(int(dir.Fd())) }
}

// wrote says how much was written so far, in bytes. It does not wait.
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

// stop waits for the flush that runs, and returns the first error of all. A flush that has not
// begun does not.
func (f *flusher) stop() error {
	select {
	case <-f.due:
	default:
	}
	close(f.due)
	f.running.Wait()
	return f.failed
}
