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
// Nothing relies on it: Commit waits for everything, and learns of every error.
//
// One goroutine calls its methods.
type flusher struct {
	begun   int64         // how much was written when the last flush became due
	due     chan struct{} // at most one waits
	running sync.WaitGroup
}

// newFlusher returns a flusher that calls flush, for as long as that takes, also at once.
// The method stop must be called.
func newFlusher(flush func()) *flusher {
	f := &flusher{due: make(chan struct{}, 1)}
	f.due <- struct{}{}
	f.running.Go(func() {
		for range f.due {
			flush()
		}
	})
	return f
}

// flushAt flushes the file system of an open folder. Nothing else may use that descriptor:
// the kernel tells an error of the disk once to each, and Commit has to learn of it.
func flushAt(dir *os.File) func() {
	return func() { _ = unix.Syncfs(int(dir.Fd())) }
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

// stop waits for the flush that runs. One that has not begun does not.
func (f *flusher) stop() {
	select {
	case <-f.due:
	default:
	}
	close(f.due)
	f.running.Wait()
}
