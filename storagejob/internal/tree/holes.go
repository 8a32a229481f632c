package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// Which holes are archived as holes.
const (
	// minHole is the smallest hole, in bytes, that an archive describes. A smaller one would add more to the map than
	// it saves. Its zeros become a hole again when they are unpacked.
	minHole = 64 << 10
	// maxExtents bounds the map of a file: even its longest text is smaller than the 1 MiB that readers accept. In a
	// file with more extents, the smallest holes are archived as zeros.
	maxExtents = 16 << 10
)

// extent returns the part of a file from one offset to another.
func extent(from, to int64) pax.Extent { return pax.Extent{Offset: from, Length: to - from} }

// dataOf returns the parts of an open file of this size that are not holes. They are sorted, with a hole of at least
// minHole between each two. A file without such holes is one extent.
func dataOf(ctx context.Context, fd int, size int64) ([]pax.Extent, error) {
	list := []pax.Extent{}
	for offset := int64(0); offset < size; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		data, hole := nextData(fd, offset, size)
		if data < hole {
			list = append(list, extent(data, hole))
		}
		if len(list) > maxExtents {
			list = thinned(list)
		}
		offset = hole
	}
	return withoutSmallHoles(list, size), nil
}

// nextData returns where the next data at or after offset begins and ends. At the end of the file both are size. If the
// file system does not report holes, everything counts as data.
func nextData(fd int, offset, size int64) (data, hole int64) {
	data, err := unix.Seek(fd, offset, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size
	}
	if err != nil || data < offset {
		return offset, size
	}
	hole, err = unix.Seek(fd, data, unix.SEEK_HOLE)
	if err != nil || hole <= data {
		hole = size
	}
	return min(data, size), min(hole, size)
}

// thinned joins extents over their smallest holes until half of maxExtents are left, so that it does not run again for
// every further extent.
func thinned(list []pax.Extent) []pax.Extent {
	list = joined(list)
	hole := func(i int) int64 { return list[i].Offset - list[i-1].End() }
	order := make([]int, 0, len(list))
	for i := 1; i < len(list); i++ {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(hole(b), hole(a)) })
	if len(order) < maxExtents/2 {
		return list
	}
	starts := order[:maxExtents/2-1]
	slices.Sort(starts)
	kept := make([]pax.Extent, 0, maxExtents/2)
	first := 0
	for _, i := range append(starts, len(list)) {
		kept = append(kept, extent(list[first].Offset, list[i-1].End()))
		first = i
	}
	return kept
}

// joined joins extents that are separated by less than minHole, in place.
func joined(list []pax.Extent) []pax.Extent {
	kept := list[:0]
	for _, e := range list {
		if n := len(kept); n > 0 && e.Offset-kept[n-1].End() < minHole {
			kept[n-1].Length = e.End() - kept[n-1].Offset
		} else {
			kept = append(kept, e)
		}
	}
	return kept
}

// withoutSmallHoles is like joined, but also fills small holes at the beginning and at the end of the file.
func withoutSmallHoles(list []pax.Extent, size int64) []pax.Extent {
	list = joined(slices.Concat([]pax.Extent{extent(0, 0)}, list, []pax.Extent{extent(size, size)}))
	return slices.DeleteFunc(list, func(e pax.Extent) bool { return e.Length == 0 })
}
