package pax

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"time"
)

// Reader reads the entries of a tar stream like [tar.Reader], and accepts any stream. It parses the headers that
// AppendHeader writes without Go's writer, and leaves all others to Go's reader. For a sparse file that
// AppendSparseHeader has described, the data can also be read alone: see Data.
type Reader struct {
	src source
	err error // the error that ended the stream
	// tr reads the content of an entry if it has read the entry's header and the entry is not sparse.
	tr *tar.Reader
	// left is the unread part of the stored content of any other entry. pad is the padding of its last block.
	left, pad int64
	// If the entry is a sparse file, data is its map and size is the offset of its end; otherwise data is nil. at is
	// the offset in the file that Read has reached, and rest is the part of data after it.
	data, rest []Extent
	size, at   int64

	plain   tar.Header // the entry's header, if it is plain
	written []byte     // what AppendHeader writes for plain
}

// NewReader reads the stream r.
func NewReader(r io.Reader) *Reader { return &Reader{src: source{r: r}} }

// Next advances to the next entry and returns its header, which is valid until the next call. The header's size
// includes holes; its PAXRecords may lack records whose values are in other fields. At the end of the stream Next
// returns io.EOF.
func (r *Reader) Next() (*tar.Header, error) {
	if r.err != nil {
		return nil, r.err
	}
	h, err := r.next()
	r.err = err
	return h, err
}

func (r *Reader) next() (*tar.Header, error) {
	if err := r.skip(); err != nil {
		return nil, err
	}
	r.tr, r.data, r.left, r.pad = nil, nil, 0, 0
	r.src.keep()
	if r.readPlain() {
		r.left, r.pad = r.plain.Size, Padding(r.plain.Size)
		return &r.plain, nil
	}
	r.src.rewind()
	// Go's reader keeps no state between entries, so each entry may have its own.
	r.tr = tar.NewReader(&r.src)
	h, err := r.tr.Next()
	r.src.keeping = false
	if err != nil {
		return nil, err
	}
	if data, sum, ok := mapOf(r.src.kept, h); ok {
		r.tr, r.data, r.size, r.left, r.pad = nil, data, h.Size, sum, Padding(sum)
		r.at, r.rest = 0, data
	}
	return h, nil
}

// Header returns the bytes that the last call of Next has read: the header, and the map of a sparse file. It is valid
// until the next call. It is empty for a header that is larger than those that AppendHeader and AppendSparseHeader
// write.
func (r *Reader) Header() []byte { return r.src.kept }

// Sparse returns the map of the entry, if it is a sparse file that AppendSparseHeader could have described.
func (r *Reader) Sparse() (data []Extent, ok bool) { return r.data, r.data != nil }

// Data reads only the data of an entry for which Sparse returns a map. Read must not be called for the same entry.
func (r *Reader) Data() io.Reader { return stored{r} }

// Read reads the content of the entry, with zeros for holes.
func (r *Reader) Read(p []byte) (int, error) {
	switch {
	case r.tr != nil:
		return r.tr.Read(p)
	case r.data == nil:
		return stored{r}.Read(p)
	}
	for len(r.rest) > 0 && r.at == r.rest[0].End() {
		r.rest = r.rest[1:]
	}
	next := Extent{r.size, 0}
	if len(r.rest) > 0 {
		next = r.rest[0]
	}
	switch {
	case r.at == r.size:
		return 0, io.EOF
	case r.at < next.Offset:
		n := min(int64(len(p)), next.Offset-r.at)
		clear(p[:n])
		r.at += n
		return int(n), nil
	default:
		n, err := stored{r}.Read(p[:min(int64(len(p)), next.End()-r.at)])
		r.at += int64(n)
		return n, err
	}
}

// stored reads the stored content of an entry that Go's reader does not read.
type stored struct{ r *Reader }

// Read implements io.Reader.
func (s stored) Read(p []byte) (int, error) {
	if s.r.left == 0 {
		return 0, io.EOF
	}
	n, err := s.r.src.Read(p[:min(int64(len(p)), s.r.left)])
	if s.r.left -= int64(n); n > 0 {
		return n, nil
	}
	return 0, noEOF(err)
}

// Finish reads the stream to its end, because tar programs pad its last block.
func (r *Reader) Finish() error {
	_, err := io.Copy(io.Discard, &r.src)
	return err
}

// skip goes to the end of the entry. A stream may end within the padding of the last block.
func (r *Reader) skip() error {
	if r.tr != nil {
		if _, err := io.Copy(io.Discard, r.tr); err != nil {
			return err
		}
		r.pad = Padding(r.src.n)
	} else if err := r.src.discard(r.left); err != nil {
		return noEOF(err)
	}
	return r.src.discard(r.pad)
}

// readPlain reads a header into plain, if AppendHeader writes it without Go's writer. Otherwise it has consumed part of
// the header, but no more than Go's reader does.
func (r *Reader) readPlain() bool {
	if !r.src.read(BlockSize) {
		return false
	}
	if b := r.src.kept; b[156] == tar.TypeXHeader {
		// Two more blocks are certain to belong to the header only if the records fit in one block.
		var field [numberField]byte
		size := octal(b[124:136])
		putOctal(field[:], size)
		if size < 1 || size > BlockSize || !bytes.Equal(b[124:136], field[:]) || !r.src.read(2*BlockSize) {
			return false
		}
	}
	if !parsePlain(r.src.kept, &r.plain) || !isPlain(&r.plain) {
		return false
	}
	// A header that was parsed too generously differs from the one written here. The name of the extended header does
	// not matter.
	r.written = r.written[:0]
	if raw := r.src.kept; len(raw) > BlockSize {
		r.written = appendTimes(r.written, text(raw[:nameField]), &r.plain)
	}
	r.written = appendBlock(r.written, r.plain.Typeflag, r.plain.Name, &r.plain, r.plain.Size)
	return bytes.Equal(r.written, r.src.kept)
}

// parsePlain reads a header from its block, which may follow an extended header of two blocks. It does not validate the
// header; it only avoids failing.
func parsePlain(raw []byte, h *tar.Header) bool {
	block := raw[len(raw)-BlockSize:]
	*h = tar.Header{
		Typeflag: block[156], Name: text(block[0:100]), Linkname: text(block[157:257]), Format: tar.FormatPAX,
		Mode: octal(block[100:108]), Uid: int(octal(block[108:116])), Gid: int(octal(block[116:124])),
		Size: octal(block[124:136]),
	}
	sec, nsec := octal(block[136:148]), int64(0)
	if len(raw) > BlockSize {
		// Only the nanoseconds are new.
		_, fraction, _ := bytes.Cut(raw[BlockSize:2*BlockSize], []byte{'.'})
		digits, _, _ := bytes.Cut(fraction, []byte{'\n'})
		if len(digits) > 9 {
			return false
		}
		for i := range 9 {
			nsec *= 10
			if i < len(digits) {
				nsec += int64(digits[i] - '0')
			}
		}
	}
	h.ModTime = time.Unix(sec, nsec)
	switch h.Typeflag {
	case tar.TypeReg:
		return !strings.HasSuffix(h.Name, "/") // it might mean a folder: Go's reader knows
	case tar.TypeDir, tar.TypeSymlink, tar.TypeLink:
		return h.Size == 0
	default:
		return false
	}
}

// text returns a field up to its end or a zero byte.
func text(field []byte) string {
	if end := bytes.IndexByte(field, 0); end >= 0 {
		field = field[:end]
	}
	return string(field)
}

// octal returns the number that putOctal has written to a field.
func octal(field []byte) (n int64) {
	for _, digit := range field[:len(field)-1] {
		n = n<<3 | int64(digit&7)
	}
	return n
}

// noEOF turns the end of the stream within an entry into an error.
func noEOF(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it as it is
		return io.ErrUnexpectedEOF
	}
	return err
}
