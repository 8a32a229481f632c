package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/storagejob/internal/pax"
	"github.com/codehub/gateway/storagejob/internal/pax/paxtest"
)

// TestEveryByteOfAStreamFlipped: no checksum protects the stream here. A stream that cannot be unpacked is refused and
// leaves nothing behind; any other stream unpacks to the same content as with other readers.
func TestEveryByteOfAStreamFlipped(t *testing.T) {
	archive, base := smallHome(t), inMemory(t)
	g := newGuarded(t, base)
	want := snapshot(t, g.around)
	refused, unpacked := 0, 0
	try := func(what string, stream []byte) {
		t.Helper()
		v, err := OpenVolume(g.volume, "")
		must(t, err)
		defer v.Close()
		err = v.Unpack(t.Context(), bytes.NewReader(stream), Limits{Bytes: 1 << 20}, new(Counter))
		var content *RefusedError
		switch {
		case err == nil:
			unpacked++
			paxtest.RequireSameAsGo(t, stream, fuzzLimit)
		case errors.Is(err, ErrCorrupt), errors.As(err, &content) && content.ByContent:
			refused++
		default:
			t.Fatalf("%s: %v", what, err)
		}
		must(t, v.Discard())
		if got := snapshot(t, g.around); !maps.Equal(got, want) {
			t.Fatalf("%s has changed the volume", what)
		}
	}
	for i, b := range archive {
		if b == 0 && i%32 != 0 {
			continue // mostly padding
		}
		bad := bytes.Clone(archive)
		bad[i] ^= 1 << (i % 8)
		try(fmt.Sprint("byte ", i), bad)
	}
	for size := 0; size < len(archive); size += 37 {
		try(fmt.Sprint("cut to ", size), archive[:size])
	}
	if refused < 500 || unpacked < 100 {
		t.Errorf("%d streams were refused, %d unpacked: what did this test try?", refused, unpacked)
	}
}

// pieces cuts an archive into its entries.
func pieces(t *testing.T, archive []byte) (list [][]byte) {
	t.Helper()
	r := bytes.NewReader(archive)
	tr := tar.NewReader(struct{ io.Reader }{r}) // or the reader would seek in it
	for start := int64(0); ; {
		_, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		_, err = io.Copy(io.Discard, tr)
		must(t, err)
		end := r.Size() - int64(r.Len())
		end += pax.Padding(end)
		list = append(list, archive[start:end])
		start = end
	}
}

// TestEntriesInAnyOrder: reordered entries either produce the same tree or are refused.
func TestEntriesInAnyOrder(t *testing.T) { seed.Each(t, entriesInAnyOrder) }

func entriesInAnyOrder(t *testing.T, random *rand.Rand) {
	from, base := inMemory(t), inMemory(t)
	populate(t, from)
	want := snapshot(t, from)
	entries := pieces(t, pack(t, from))
	same := 0
	for round := range 300 {
		shuffled := slices.Clone(entries)
		if round%2 == 0 {
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		} else { // only two of them
			i, j := random.IntN(len(entries)), random.IntN(len(entries))
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		}
		to := newGuarded(t, base)
		before := snapshot(t, to.around)
		err := restoreInto(t, to.volume, append(slices.Concat(shuffled...), make([]byte, 2*pax.BlockSize)...))
		switch {
		case err == nil:
			same++
			requireEqual(t, want, snapshot(t, to.volume))
		case errors.Is(err, ErrCorrupt):
			requireEqual(t, before, snapshot(t, to.around))
		default:
			t.Fatalf("round %d: %v", round, err)
		}
		must(t, os.RemoveAll(to.around))
	}
	if same < 20 || same > 290 {
		t.Errorf("%d of 300 orders make the tree", same)
	}
}
