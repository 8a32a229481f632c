package tree

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

const (
	// writerCount is how many goroutines make small files. Most of it is work of the
	// kernel, which makes files of different folders side by side.
	writerCount = 3
	// batchBytes is how much content goes to a writer at once, and the size of the largest file
	// that does. batchFiles is how many files do at most. They go together because handing one over
	// costs about as much as making it. From batchBytes of extended headers on, no further file
	// joins them.
	batchBytes = copyBuffer
	batchFiles = 32
	// batchCount bounds the memory of what waits for a writer, and the number of folders
	// that stay open for it.
	batchCount = 2 * writerCount
)

// writers make small files beside the goroutine that reads the stream, which is the only
// one that may call their methods. Files are made in any order: whatever depends on an
// earlier one has to wait for drain.
//
// After an error, nothing is made that comes later in the stream. What comes earlier is made, and
// its error counts instead, if it fails as well. It is as if there were one writer.
type writers struct {
	count   *Counter
	current *batch // being filled; nil if none is
	given   int64  // batches so far
	free    chan *batch
	queue   chan *batch
	waiting sync.WaitGroup // for the batches in the queue or at a writer
	running sync.WaitGroup // for the goroutines
	failed  atomic.Int64   // number of the first batch that failed; allGood if none has

	mu  sync.Mutex // guards err, and changes of failed
	err error      // of that batch
}

// allGood is more than any batch's number.
const allGood = math.MaxInt64

// batch is content that was read from the stream, and the files that it is to become.
type batch struct {
	number  int64
	content []byte // of all files, one after the other
	files   []smallFile
	records int // bytes of their extended headers
}

// smallFile is a file to be made.
type smallFile struct {
	parent     *folder // held until the file is done
	name, full string  // in its folder, and in the archive
	size       int
	attrs      attrs.Attributes
	records    int // bytes of its extended header, all of which names and attributes keep in memory
}

func newWriters(count *Counter) *writers {
	w := &writers{count: count, free: make(chan *batch, batchCount), queue: make(chan *batch, batchCount)}
	w.failed.Store(allGood)
	for range batchCount {
		w.free <- &batch{}
	}
	for range writerCount {
		w.running.Go(func() {
			for b := range w.queue {
				w.write(b)
				clear(b.files)
				b.content, b.files, b.records = b.content[:0], b.files[:0], 0
				w.free <- b
				w.waiting.Done()
			}
		})
	}
	return w
}

// buffer returns where the content of a file of at most batchBytes bytes is to be read into,
// for the call of add that follows. It waits while all batches are being written.
func (w *writers) buffer(size int) []byte {
	if b := w.current; b != nil && len(b.content)+size > batchBytes {
		w.flush()
	}
	if w.current == nil {
		w.current = <-w.free
		if w.current.content == nil {
			w.current.content = make([]byte, 0, batchBytes)
		}
	}
	n := len(w.current.content)
	return w.current.content[n : n+size]
}

// add hands over a file whose content has been read into what buffer returned.
func (w *writers) add(f smallFile) {
	f.parent.hold()
	b := w.current
	b.content, b.files = b.content[:len(b.content)+f.size], append(b.files, f)
	b.records += f.records
	if len(b.files) == batchFiles || b.records >= batchBytes {
		w.flush()
	}
}

// flush gives the current batch to a writer.
func (w *writers) flush() {
	if b := w.current; b != nil {
		b.number, w.current = w.given, nil
		w.given++
		w.waiting.Add(1)
		w.queue <- b
	}
}

// drain waits until all files that were added have been made, and their folders are
// complete if the chain has left them. It returns the error of the first that was not.
func (w *writers) drain() error {
	w.flush()
	w.waiting.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// stop does what drain does and ends the goroutines.
func (w *writers) stop() error {
	err := w.drain()
	close(w.queue)
	w.running.Wait()
	return err
}

// haveFailed reports whether a file could not be made.
func (w *writers) haveFailed() bool { return w.failed.Load() != allGood }

// write makes the files of a batch.
func (w *writers) write(b *batch) {
	content := b.content
	for _, f := range b.files {
		if b.number < w.failed.Load() {
			if err := w.file(f, content[:f.size]); err != nil {
				w.fail(b.number, fmt.Errorf("unpacking %q: %w", f.full, err))
			}
		}
		content = content[f.size:]
		if err := f.parent.release(w.count, w.haveFailed()); err != nil {
			w.fail(b.number, err)
		}
	}
}

// file makes one file.
func (w *writers) file(f smallFile, content []byte) error {
	fd, err := createFile(f.parent.fd, f.name)
	if err != nil {
		return damage(err, f.parent.fd, f.name)
	}
	defer unix.Close(fd)
	if err := writeSmall(fd, content); err != nil {
		return err
	}
	skipped, err := f.attrs.Apply(fd)
	w.count.Skipped.Add(int64(skipped))
	return damage(err, f.parent.fd, f.name)
}

// fail records an error of a batch.
func (w *writers) fail(number int64, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number < w.failed.Load() {
		w.err = err
		w.failed.Store(number)
	}
}

// writeSmall writes the content of a file that has none, with holes in place of whole
// blocks of zeros.
func writeSmall(fd int, content []byte) error {
	hole, size := false, int64(0)
	for rest := content; len(rest) > 0; {
		run, empty := extentOf(rest)
		if !empty {
			if err := writeAt(fd, rest[:run], size); err != nil {
				return err
			}
		}
		hole, size, rest = empty, size+int64(run), rest[run:]
	}
	// A hole at the end was not written, so the file is too short by it.
	if hole {
		return unix.Ftruncate(fd, size)
	}
	return nil
}
