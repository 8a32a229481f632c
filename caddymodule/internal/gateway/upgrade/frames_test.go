package upgrade

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/seed"
)

// frame builds a frame.
func frame(opcode byte, final, masked bool, n int) []byte {
	first := opcode
	if final {
		first |= 0x80
	}
	var mask byte
	if masked {
		mask = 0x80
	}
	b := []byte{first}
	switch {
	case n < 126:
		b = append(b, mask|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, mask|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, mask|127), uint64(n))
	}
	if masked {
		b = append(b, 1, 2, 3, 4)
	}
	return append(b, bytes.Repeat([]byte{0x89}, n)...)
}

func TestFrames(t *testing.T) {
	for _, c := range []struct {
		name string
		in   []byte
		data bool
	}{
		{"text", frame(1, true, true, 5), true},
		{"binary", frame(2, true, false, 70000), true},
		{"empty text", frame(1, true, true, 0), true},
		{"continuation", frame(0, false, false, 300), true},
		{"ping", frame(9, true, true, 4), false},
		{"pong", frame(10, true, false, 125), false},
		{"close", frame(8, true, true, 2), false},
		{"ping, text", append(frame(9, true, true, 4), frame(1, true, true, 1)...), true},
		{"ping, pong, close", append(append(frame(9, true, true, 0), frame(10, true, true, 9)...), frame(8, true, true, 0)...), false},
		{"reserved opcode, then text", append(frame(3, true, true, 4), frame(1, true, true, 1)...), false},
		{"long ping, then text", append(frame(9, true, true, 200), frame(1, true, true, 1)...), false},
		{"fragmented ping, then text", append(frame(9, false, true, 2), frame(1, true, true, 1)...), false},
		{"length beyond 63 bits", []byte{0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}, false},
		{"http", []byte("HTTP/1.1 200 OK\r\n\r\n"), false},
	} {
		var whole, bytewise frames
		if got, _ := whole.scan(c.in); got != c.data {
			t.Errorf("%s: got %v", c.name, got)
		}
		got := false
		for i := range c.in {
			data, _ := bytewise.scan(c.in[i : i+1])
			got = got || data
		}
		if got != c.data {
			t.Errorf("%s, byte by byte: got %v", c.name, got)
		}
	}
}

// However a stream is cut into reads, a piece counts exactly if it holds a part of a
// data frame.
func TestFramesInAnyPieces(t *testing.T) {
	seed.Rapid(t, func(t *rapid.T) {
		type kind struct {
			opcode byte
			max    int
		}
		kinds := []kind{{0, 70000}, {1, 300}, {2, 300}, {8, 125}, {9, 125}, {10, 125}}
		var stream []byte
		var isData []bool // per byte, where it is known at that byte
		for range rapid.IntRange(1, 8).Draw(t, "frames") {
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			f := frame(k.opcode, true, rapid.Bool().Draw(t, "masked"), rapid.IntRange(0, k.max).Draw(t, "len"))
			header := len(f) - payloadLen(f)
			for i := range f {
				isData = append(isData, k.opcode <= 2 && i >= header-1)
			}
			stream = append(stream, f...)
		}
		var f frames
		for at := 0; at < len(stream); {
			n := min(rapid.IntRange(1, 400).Draw(t, "piece"), len(stream)-at)
			want := false
			for _, d := range isData[at : at+n] {
				want = want || d
			}
			if got, _ := f.scan(stream[at : at+n]); got != want {
				t.Fatalf("bytes %d to %d: got %v", at, at+n, got)
			}
			at += n
		}
		if f.garbage {
			t.Fatal("a valid stream is treated as garbage")
		}
	})
}

func payloadLen(f []byte) int {
	switch n := int(f[1] & 0x7f); n {
	case 126:
		return int(binary.BigEndian.Uint16(f[2:]))
	case 127:
		return int(binary.BigEndian.Uint64(f[2:]))
	default:
		return n
	}
}

// dataBytes is a second parser, which gets a whole stream. For each byte it tells whether the byte completes the header
// of a data frame or belongs to its payload. It stops at the first byte that breaks the protocol.
func dataBytes(stream []byte) (data []bool) {
	for len(stream) >= 2 {
		opcode, length, header := stream[0]&0x0f, uint64(stream[1]&0x7f), 2
		extra := map[uint64]int{126: 2, 127: 8}[length]
		header += extra
		if stream[1]&0x80 != 0 {
			header += 4
		}
		if len(stream) < header {
			break
		}
		if extra > 0 {
			var full [8]byte
			copy(full[8-extra:], stream[2:2+extra])
			length = binary.BigEndian.Uint64(full[:])
		}
		control := opcode >= 8 && opcode <= 10
		if length >= 1<<63 || opcode > 2 && !control || control && (length > 125 || stream[0]&0x80 == 0) {
			return data
		}
		data = append(data, make([]bool, header-1)...)
		data = append(data, !control)
		n := int(min(length, uint64(len(stream)-header)))
		for range n {
			data = append(data, !control)
		}
		stream = stream[header+n:]
	}
	return append(data, make([]bool, len(stream))...)
}

// FuzzFrames: for any bytes, cut in any way, a piece counts exactly when the second
// parser finds a byte of a data frame in it.
func FuzzFrames(f *testing.F) {
	f.Add(frame(1, true, true, 200), 3)
	f.Add(append(frame(9, true, false, 4), frame(2, true, false, 70000)...), 1000)
	f.Add([]byte{0x82, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}, 1)
	f.Add(append(frame(8, false, true, 0), frame(1, true, true, 9)...), 2)
	f.Fuzz(func(t *testing.T, stream []byte, piece int) {
		data := dataBytes(stream)
		var parser frames
		for at := 0; at < len(stream); {
			n := min(max(piece, 1), len(stream)-at)
			want := at < len(data) && slices.Contains(data[at:min(at+n, len(data))], true)
			if got, _ := parser.scan(stream[at : at+n]); got != want {
				t.Fatalf("bytes %d to %d of %x: got %v", at, at+n, stream, got)
			}
			at += n
		}
	})
}

type nothing struct{}

func (nothing) Message(uint64) {}

// No message costs an allocation, on any kind of connection.
func TestMessagesAllocateNothing(t *testing.T) {
	for _, size := range []int{0, 100, 1000, 70000} {
		message := append(frame(9, true, true, 4), frame(2, true, true, size)...)
		for _, webSocket := range []bool{true, false} {
			c := counter{meter: nothing{}, webSocket: webSocket}
			if n := testing.AllocsPerRun(100, func() { c.count(message) }); n != 0 {
				t.Errorf("%d bytes, WebSocket %v: %v allocations", size, webSocket, n)
			}
		}
	}
}

// The meter learns how large a frame is as a whole, even if a piece of the stream holds only a little of it.
func TestTheMeterLearnsTheSize(t *testing.T) {
	var told sizes
	c := counter{meter: &told, webSocket: true}
	stream := slices.Concat(frame(1, true, true, 9), frame(9, true, true, 100), frame(2, true, true, 70000), frame(1, true, false, 300))
	for piece := range slices.Chunk(stream, 20000) {
		c.count(piece)
	}
	if want := (sizes{70000, 70000, 70000, 70000}); !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}

type sizes []uint64

func (s *sizes) Message(size uint64) { *s = append(*s, size) }

func BenchmarkFrames(b *testing.B) {
	for _, size := range []int{32, 4096, 65536} {
		msg := frame(2, true, true, size)
		b.Run("", func(b *testing.B) {
			b.SetBytes(int64(len(msg)))
			b.ReportAllocs()
			s := counter{meter: nothing{}, webSocket: true}
			for b.Loop() {
				s.count(msg)
			}
		})
	}
}
