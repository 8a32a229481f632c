package tree

import (
	"archive/tar"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// A sparse file is written in the form "PAX sparse 1.0" of GNU tar, which bsdtar, Python
// and Go's reader know as well: an extended header with the records below, a header, and
// as the file's content the map of its data, filled up to a block, and then the data.
// Go's writer cannot write it, so it is put together here.
const (
	paxMajor    = "GNU.sparse.major"
	paxMinor    = "GNU.sparse.minor"
	paxName     = "GNU.sparse.name"
	paxRealSize = "GNU.sparse.realsize"
	paxSize     = "size" // of what is stored: map and data
)

// Sizes of the format.
const (
	// blockSize is the unit of a tar stream, in bytes.
	blockSize = 512
	// maxRecords is the most that readers accept of an extended header, in bytes.
	maxRecords = 1 << 20
)

// padding returns how many bytes fill up the last block of a content of this size.
func padding(size int64) int64 { return -size & (blockSize - 1) }

// sparseHeader returns what comes before the data of a sparse file. Programs that do not
// know the form unpack it under a name of their own, which number makes unique.
func sparseHeader(h *tar.Header, data []extent, number int) ([]byte, error) {
	// GNU tar makes the file end where the map does.
	if n := len(data); n == 0 || data[n-1].end() < h.Size {
		data = append(slices.Clip(data), extent{h.Size, 0})
	}
	text := strconv.AppendInt(nil, int64(len(data)), 10)
	stored := int64(0)
	for _, e := range data {
		text = append(strconv.AppendInt(append(text, '\n'), e.offset, 10), '\n')
		text = strconv.AppendInt(text, e.length, 10)
		stored += e.length
	}
	text = append(text, '\n')
	text = append(text, zeros[:padding(int64(len(text)))]...)
	stored += int64(len(text))

	records := maps.Clone(h.PAXRecords)
	if records == nil {
		records = make(map[string]string)
	}
	maps.Copy(records, map[string]string{
		paxMajor: "1", paxMinor: "0", paxName: h.Name, paxRealSize: strconv.FormatInt(h.Size, 10), paxSize: strconv.FormatInt(stored, 10),
		"mtime": paxTime(h.ModTime), "uid": strconv.Itoa(h.Uid), "gid": strconv.Itoa(h.Gid),
	})
	var extended strings.Builder
	for _, key := range slices.Sorted(maps.Keys(records)) {
		extended.WriteString(paxRecord(key, records[key]))
	}
	length := int64(extended.Len())
	if length > maxRecords {
		return nil, fmt.Errorf("its name and extended attributes take %d bytes: %w", length, errors.ErrUnsupported)
	}
	stub := "GNUSparseFile." + strconv.Itoa(number)
	out := appendBlock(nil, tar.TypeXHeader, "./PaxHeaders.0/"+stub, &tar.Header{}, length)
	out = append(append(out, extended.String()...), zeros[:padding(length)]...)
	return append(appendBlock(out, tar.TypeReg, "./"+stub, h, stored), text...), nil
}
