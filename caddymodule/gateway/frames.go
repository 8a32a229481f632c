package gateway

// frames follows one direction of a WebSocket (RFC 6455, section 5.2) without
// buffering it, and tells messages from control frames: control frames only keep a
// connection open, and are not activity (SPEC 6).
//
// Bytes that are not a WebSocket stream end the parsing: from then on nothing counts.
// The bytes themselves are never changed.
type frames struct {
	header  [14]byte
	have    int    // bytes of the header that were seen
	left    uint64 // bytes of the payload that are still to come
	data    bool   // the frame in progress carries data
	garbage bool
}

// scan parses the next bytes of the stream, and reports whether some of them belong
// to a data frame.
func (f *frames) scan(p []byte) (data bool) {
	for len(p) > 0 && !f.garbage {
		if f.left > 0 {
			n := min(f.left, uint64(len(p)))
			f.left -= n
			p = p[n:]
			data = data || f.data
			continue
		}
		f.header[f.have] = p[0]
		f.have++
		p = p[1:]
		if f.have < 2 || f.have < f.headerLen() {
			continue
		}
		if !f.begin() {
			f.garbage = true
			break
		}
		data = data || f.data
	}
	return data
}

// headerLen returns the length of the header, whose first two bytes must be known.
func (f *frames) headerLen() int {
	n := 2
	switch f.header[1] & 0x7f {
	case 126:
		n += 2
	case 127:
		n += 8
	}
	if f.header[1]&0x80 != 0 {
		n += 4 // the masking key
	}
	return n
}

// begin parses the complete header. It reports false when it is not a valid one.
func (f *frames) begin() bool {
	opcode, final := f.header[0]&0x0f, f.header[0]&0x80 != 0
	length := uint64(f.header[1] & 0x7f)
	switch length {
	case 126:
		length = uint64(f.header[2])<<8 | uint64(f.header[3])
	case 127:
		length = 0
		for _, b := range f.header[2:10] {
			length = length<<8 | uint64(b)
		}
	}
	f.have, f.left = 0, length
	switch {
	case length > 1<<63-1:
		return false
	case opcode <= 2:
		f.data = true
		return true
	case opcode >= 8 && opcode <= 10:
		f.data = false
		return final && length <= 125
	}
	return false // reserved
}
