package tree

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// What is archived as a hole.
const (
	// minHole is the smallest hole, in bytes, that an archive describes. A smaller one
	// would take more of a map than it saves; its zeros become a hole again when they are
	// unpacked.
	minHole = 64 << 10
	// maxExtents bounds the map of a file. Its largest text stays below the 1 MiB that
	// readers accept. Of a file with more extents the smallest holes are archived as zeros.
	maxExtents = 16 << 10
)

// extent is a part of a file that is not a hole, in bytes.
type extent struct{ offset, length int64 }

// end returns the offset behind the extent.
func (e extent) end() int64 { return e.offset + e.length }

// dataOf returns what of an open file of this size is not a hole: sorted, apart, each two
// with a hole of at least minHole between them. A file without such holes is one extent.
func dataOf(ctx context.Context, fd int, size int64) ([]extent, error) {
	list := []extent{}
	for offset := int64(0); offset < size; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		data, hole := nextData(fd, offset, size)
		if data < hole {
			list = append(list, extent{data, hole - data})
		}
		if len(list) > maxExtents {
			list = thinned(list)
		}
		offset = hole
	}
	return withoutSmallHoles(list, size), nil
}

// nextData returns where the next data at or after offset begins and where it ends. At
// the end of the file both are size. If the file system does not report holes,
// everything counts as data.
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

// thinned joins extents over their smallest holes until half of maxExtents are left, so
// that it is not called for every further one.
func thinned(list []extent) []extent {
	list = joined(list)
	hole := func(i int) int64 { return list[i].offset - list[i-1].end() }
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
	kept := make([]extent, 0, maxExtents/2)
	first := 0
	for _, i := range append(starts, len(list)) {
		kept = append(kept, extent{list[first].offset, list[i-1].end() - list[first].offset})
		first = i
	}
	return kept
}

// joined joins the extents between which there is a hole smaller than minHole, in place.
func joined(list []extent) []extent {
	kept := list[:0]
	for _, e := range list {
		if n := len(kept); n > 0 && e.offset-kept[n-1].end() < minHole {
			kept[n-1].length = e.end() - kept[n-1].offset
		} else {
			kept = append(kept, e)
		}
	}
	return kept
}

// withoutSmallHoles is joined, also with the beginning and the end of the file.
func withoutSmallHoles(list []extent, size int64) []extent {
	list = joined(slices.Concat([]extent{{0, 0}}, list, []extent{{size, 0}}))
	return slices.DeleteFunc(list, func(e extent) bool { return e.length == 0 })
}
