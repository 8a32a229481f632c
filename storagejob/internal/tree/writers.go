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
	// writerCount is how many goroutines create small files. Most of the work is in the kernel, which creates files of
	// different folders in parallel.
	writerCount = 3
	// batchBytes is the most content that a writer gets at once, and the size of the largest file that goes to a
	// writer. batchFiles is the largest number of files in a batch. Files are batched because handing one over costs
	// about as much as creating it. A batch with batchBytes of extended headers is also full.
	batchBytes = copyBuffer
	batchFiles = 32
	// batchCount bounds the memory of batches that wait for a writer, and the number of folders that stay open for
	// them.
	batchCount = 2 * writerCount
)

// writers create small files in parallel to the goroutine that reads the stream. Only that goroutine may call their
// methods. Files are created in any order, so an entry that depends on an earlier one must wait for drain.
//
// After an error, no later entry of the stream is created. Earlier entries are still created; if one of them fails, its
// error replaces the first. The result is as if there were one writer.
type writers struct {
	count   *Counter
	current *batch // being filled; nil if none is
	given   int64  // batches so far
	free    chan *batch
	queue   chan *batch
	waiting sync.WaitGroup // for the batches in the queue or at a writer
	running sync.WaitGroup // for the goroutines
	failed  atomic.Int64   // number of the first failed batch, or allGood

	mu  sync.Mutex // guards err, and changes of failed
	err error      // of that batch
}

// allGood is greater than any batch's number.
const allGood = math.MaxInt64

// batch is content that was read from the stream, and the files to create from it.
type batch struct {
	number  int64
	content []byte // of all files, one after the other
	files   []smallFile
	records int // bytes of their extended headers
}

// smallFile is a file to create.
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

// buffer returns the buffer into which the content of a file of at most batchBytes bytes must be read before the next
// call of add. It waits while all batches are being written.
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

// add hands over a file whose content has been read into the result of buffer.
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

// drain waits until all added files have been created and all folders that the chain has left are complete. It returns
// the error of the first file that failed.
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

// haveFailed reports whether creating a file has failed.
func (w *writers) haveFailed() bool { return w.failed.Load() != allGood }

// write creates the files of a batch.
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

// file creates one file.
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

// writeSmall writes the content of an empty file, with holes instead of whole blocks of zeros.
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
	// A hole at the end was not written, so the file is still too short by its size.
	if hole {
		return unix.Ftruncate(fd, size)
	}
	return nil
}
