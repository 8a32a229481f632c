package upgrade

import (
	"encoding/binary"
	"math"
)

// frames follows one direction of a WebSocket (RFC 6455, section 5.2) without buffering it. It
// tells messages from control frames, which only keep a connection open and are not activity
// (SPEC 6).
//
// If the bytes are not a WebSocket stream, the parsing ends, and from then on nothing counts as activity. The bytes
// themselves are never changed. The zero value is ready for the first byte; one goroutine uses it.
type frames struct {
	header  [14]byte
	have    int    // bytes of the header that were seen
	left    uint64 // bytes of the payload that are still to come
	size    uint64 // of the payload of the frame in progress
	data    bool   // the frame in progress carries data
	partial bool   // the message in progress goes on in another frame
	garbage bool
}

// between reports whether the last byte was the end of a message.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 && !f.partial && !f.garbage }

// scan parses the next bytes of the stream. It reports whether some of them belong to a data
// frame, and how large the payload of the largest such frame is.
func (f *frames) scan(p []byte) (data bool, largest uint64) {
	for len(p) > 0 && !f.garbage {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			if f.data {
				data, largest = true, max(largest, f.size)
			}
			continue
		}
		n := 2
		if f.have == 0 && len(p) >= n {
			n = headerLen(p[1])
		}
		if f.have == 0 && len(p) >= n {
			f.begin(p[:n]) // the usual case: one read holds the whole header
			p = p[n:]
		} else {
			f.header[f.have] = p[0]
			f.have++
			p = p[1:]
			if f.have < 2 || f.have < headerLen(f.header[1]) {
				continue
			}
			f.begin(f.header[:f.have])
		}
		// The header of an empty data frame counts, because such a frame is a message without a payload.
		if f.data && !f.garbage {
			data, largest = true, max(largest, f.size)
		}
	}
	return data, largest
}

// headerLen returns the length of the header whose second byte is given.
func headerLen(second byte) int {
	n := 2
	switch second & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if second&0x80 != 0 {
		n += 4 // the masking key
	}
	return n
}

// begin parses a complete header. One that is not valid makes the stream garbage.
func (f *frames) begin(header []byte) {
	opcode, final := header[0]&0x0f, header[0]&0x80 != 0
	length := uint64(header[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(binary.BigEndian.Uint16(header[2:]))
	case 127:
		length = binary.BigEndian.Uint64(header[2:])
	}
	isControl := opcode >= 8 && opcode <= 10
	f.have, f.left, f.size, f.data = 0, length, length, !isControl
	if f.data {
		f.partial = !final
	}
	switch {
	case length > math.MaxInt64:
		f.garbage = true
	case isControl:
		f.garbage = !final || length > 125
	case opcode > 2: // reserved
		f.garbage = true
	}
}
