// Package compression compresses and decompresses the stream in an archive.
//
// It owns the format: consecutive zstd frames, as pzstd writes them. Each frame holds one section of the stream and its
// checksum. Any zstd program reads them as one stream. The amount of memory and the number of goroutines depend neither
// on the stream nor on the machine.
package compression

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/zstd"
)

const (
	// sectionSize is how much of the stream is compressed at a time, in bytes, and how far back the compressor looks
	// for repetitions. In measurements, sections of half this size made archives of small files 0.6 % larger, and
	// archives of sources 2 % larger.
	sectionSize = 4 << 20
	// threads is how many sections are compressed at the same time. The alternative is a single stream, in which
	// finding matches and coding them overlap. Measured on two processors, its archives were 0.6 and 0.9 % smaller, but
	// it took 50 % longer.
	threads = 2
	// sections is how many sections are in memory together with their compressed form: those being compressed, and the
	// one being filled. Measured: one more takes 8 MiB and saves no time.
	sections = threads + 1
	// maxWindow is the largest zstd window that is accepted. The window determines how much memory decompression takes,
	// and an archive may be damaged or forged.
	maxWindow = 32 << 20
)

// section is one section of the stream.
type section struct {
	plain, packed []byte
	done          chan struct{} // receives when packed is the compressed form of plain
}

// Writer compresses everything written to it. Close or Abort must be called exactly once. Only one goroutine may call
// its methods.
type Writer struct {
	current *section
	free    chan *section
	work    chan *section // to the compressors
	queue   chan *section // in order, to the goroutine that writes them
	running sync.WaitGroup
	failed  chan struct{} // closed when err is set
	err     error         // of the underlying writer
	aborted atomic.Bool
}

// NewWriter returns a writer that writes to w in its own goroutine, until Close or Abort.
func NewWriter(w io.Writer) (*Writer, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(sectionSize),
		// The checksums later prove the content of an archive.
		zstd.WithEncoderConcurrency(threads), zstd.WithEncoderCRC(true))
	if err != nil {
		return nil, fmt.Errorf("starting the compressor: %w", err)
	}
	c := &Writer{
		free: make(chan *section, sections), work: make(chan *section, sections), queue: make(chan *section, sections),
		failed: make(chan struct{}),
	}
	for range sections {
		c.free <- &section{done: make(chan struct{}, 1)}
	}
	for range threads {
		c.running.Go(func() {
			for s := range c.work {
				if !c.aborted.Load() {
					s.packed = enc.EncodeAll(s.plain, s.packed[:0])
				}
				s.done <- struct{}{}
			}
		})
	}
	c.running.Go(func() { c.writeTo(w) })
	return c, nil
}

// writeTo writes the sections in order until there are no more, or until writing fails.
func (c *Writer) writeTo(w io.Writer) {
	for s := range c.queue {
		<-s.done
		if c.err == nil && !c.aborted.Load() {
			if _, c.err = w.Write(s.packed); c.err != nil {
				close(c.failed)
			}
		}
		s.plain = s.plain[:0]
		c.free <- s
	}
}

// Write implements io.Writer. It waits while all sections are being compressed or written, and returns the error that
// ended the writer.
func (c *Writer) Write(p []byte) (n int, err error) {
	for n < len(p) {
		if c.current == nil {
			if err := c.next(); err != nil {
				return n, err
			}
		}
		some := p[n:min(len(p), n+sectionSize-len(c.current.plain))]
		c.current.plain = append(c.current.plain, some...)
		if n += len(some); len(c.current.plain) == sectionSize {
			c.hand()
		}
	}
	return n, nil
}

// next takes a section to fill.
func (c *Writer) next() error {
	c.current = <-c.free
	select {
	case <-c.failed:
		c.free <- c.current
		c.current = nil
		return c.err
	default:
	}
	if c.current.plain == nil {
		c.current.plain = make([]byte, 0, sectionSize)
	}
	return nil
}

// hand gives the current section to the compressors.
func (c *Writer) hand() {
	c.queue <- c.current
	c.work <- c.current
	c.current = nil
}

// Close compresses the rest, waits until everything is written or a write has failed, and returns that error. It leaves
// the underlying writer open.
func (c *Writer) Close() error {
	if c.current != nil {
		c.hand()
	}
	close(c.work)
	close(c.queue)
	c.running.Wait()
	return c.err
}

// Abort ends the writer and drops everything that is not compressed or written yet. Nothing is written after it
// returns.
func (c *Writer) Abort() {
	c.aborted.Store(true)
	c.current = nil
	_ = c.Close()
}

// NewReader returns the decompressed content of r. Its memory is bounded by maxWindow.
func NewReader(r io.Reader) (io.ReadCloser, error) {
	dec, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(threads),
		zstd.WithDecoderLowmem(true))
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return dec.IOReadCloser(), nil
}
