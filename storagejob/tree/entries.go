package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"strconv"

	"golang.org/x/sys/unix"
)

// entries reads the entries of a tar stream like [tar.Reader]. Of a sparse file it can also
// deliver the data alone: Go's reader would deliver a hole of a terabyte as zeros. Go's
// reader reads and checks the map; what it has read is looked at a second time. Sparse
// files in forms that Pack does not write have no map here.
type entries struct {
	src *recorder
	tr  *tar.Reader
	// data is the map of a sparse file, of whose end size is the offset; otherwise nil.
	data []extent
	size int64
	// at is the offset in the file up to which Read has come, and rest what of data is
	// behind it.
	at   int64
	rest []extent
	// left is how much of the stored data has not been read, and pad what fills up its
	// last block.
	left, pad int64
}

// newEntries reads the stream r.
func newEntries(r io.Reader) *entries {
	src := &recorder{r: r}
	return &entries{src: src, tr: tar.NewReader(src)}
}

// Next goes to the next entry and returns its header. The size in it includes holes.
func (e *entries) Next() (*tar.Header, error) {
	if e.data != nil {
		if _, err := io.CopyN(io.Discard, e.src, e.left+e.pad); err != nil {
			return nil, noEOF(err)
		}
		// The reader does not know that the content was read. It keeps nothing from one
		// entry to the next.
		e.tr, e.data = tar.NewReader(e.src), nil
	} else if _, err := io.Copy(io.Discard, e.tr); err != nil {
		return nil, err
	}
	filled := padding(e.src.n)
	e.src.start()
	h, err := e.tr.Next()
	raw := e.src.stop()
	if err != nil || h.PAXRecords[paxMajor] != "1" || h.PAXRecords[paxMinor] != "0" || int64(len(raw)) < filled {
		return h, err
	}
	if data, sum, ok := mapOf(raw[filled:], h); ok {
		e.data, e.size, e.left, e.pad = data, h.Size, sum, padding(sum)
		e.at, e.rest = 0, data
	}
	return h, nil
}

// Read reads the content of the entry, with zeros in place of holes.
func (e *entries) Read(p []byte) (int, error) {
	if e.data == nil {
		return e.tr.Read(p)
	}
	for len(e.rest) > 0 && e.at == e.rest[0].end() {
		e.rest = e.rest[1:]
	}
	next := extent{e.size, 0}
	if len(e.rest) > 0 {
		next = e.rest[0]
	}
	switch {
	case e.at == e.size:
		return 0, io.EOF
	case e.at < next.offset:
		n := min(int64(len(p)), next.offset-e.at)
		clear(p[:n])
		e.at += n
		return int(n), nil
	default:
		n, err := stored{e}.Read(p[:min(int64(len(p)), next.end()-e.at)])
		e.at += int64(n)
		return n, err
	}
}

// stored reads of a sparse file with a map only the data. Read must not be called for the
// same file.
type stored struct{ e *entries }

// Read implements io.Reader.
func (s stored) Read(p []byte) (int, error) {
	if s.e.left == 0 {
		return 0, io.EOF
	}
	n, err := s.e.src.Read(p[:min(int64(len(p)), s.e.left)])
	if s.e.left -= int64(n); n > 0 {
		return n, nil
	}
	return 0, noEOF(err)
}

// sparse writes the data of a sparse file of this size where the map says, and returns
// the size that the file got.
func (u *unpacker) sparse(e *entries, fd int, size int64) (int64, error) {
	holes := size
	for _, part := range e.data {
		end, err := u.content(io.LimitReader(stored{e}, part.length), fd, part.offset)
		if err != nil {
			return end, err
		}
		if end != part.end() {
			return end, fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, io.ErrUnexpectedEOF)
		}
		holes -= part.length
	}
	u.count.Bytes.Add(holes)
	u.count.Holes.Add(holes)
	// Behind the last data there may be a hole.
	return size, unix.Ftruncate(fd, size)
}

// noEOF turns the end of the stream within an entry into an error.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}

// mapOf returns the map of a sparse file, from what Go's reader has read until it
// returned the header h, and the size of the data that follows. That reader has checked
// that the map is sorted and within the file. Where anything is not as Pack writes it, ok
// is false.
func mapOf(raw []byte, h *tar.Header) (data []extent, sum int64, ok bool) {
	size, kind := int64(0), byte(tar.TypeXHeader)
	for kind == tar.TypeXHeader {
		if len(raw) < blockSize {
			return nil, 0, false
		}
		var err error
		if size, err = strconv.ParseInt(string(bytes.Trim(raw[124:136], " \x00")), 8, 64); err != nil || size < 0 {
			return nil, 0, false
		}
		kind, raw = raw[156], raw[blockSize:]
		if kind == tar.TypeXHeader {
			if size > maxRecords || size+padding(size) > int64(len(raw)) {
				return nil, 0, false
			}
			raw = raw[size+padding(size):]
		}
	}
	if text := h.PAXRecords[paxSize]; text != "" {
		var err error
		if size, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, 0, false
		}
	}
	if kind != tar.TypeReg {
		return nil, 0, false
	}
	rest := raw
	number := func() int64 {
		text, after, found := bytes.Cut(rest, []byte{'\n'})
		n, err := strconv.ParseInt(string(text), 10, 64)
		if !found || err != nil || n < 0 {
			ok = false
			return 0
		}
		rest = after
		return n
	}
	ok = true
	data = []extent{}
	for range number() {
		data = append(data, extent{number(), number()})
		if !ok {
			return nil, 0, false
		}
		sum += data[len(data)-1].length
	}
	used := int64(len(raw) - len(rest))
	if !ok || used+padding(used) != int64(len(raw)) || size != int64(len(raw))+sum {
		return nil, 0, false
	}
	return data, sum, true
}

// recorder passes on what it reads and, between start and stop, keeps it.
type recorder struct {
	r    io.Reader
	n    int64 // read so far
	on   bool
	kept []byte
}

// maxRecorded is the most that is kept, in bytes: an extended header and a map of the
// largest size that Go's reader accepts.
const maxRecorded = 2*maxRecords + 8*blockSize

// Read implements io.Reader.
func (r *recorder) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	if r.on && len(r.kept)+n > maxRecorded {
		r.on, r.kept = false, nil
	}
	if r.on {
		r.kept = append(r.kept, p[:n]...)
	}
	return n, err
}

// start forgets what was kept and begins to keep.
func (r *recorder) start() { r.on, r.kept = true, r.kept[:0] }

// stop returns what was read since start, valid until the next start. It is empty if that
// was too much.
func (r *recorder) stop() []byte {
	r.on = false
	return r.kept
}
