package pax

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A sparse file is written in the form "PAX sparse 1.0" of GNU tar, which bsdtar, Python and Go's reader also know: an
// extended header with the records below, and a header. The file's content is the map of its data, padded to a block,
// followed by the data. Go's writer cannot write this form, so this package assembles it.
const (
	majorKey    = "GNU.sparse.major"
	minorKey    = "GNU.sparse.minor"
	nameKey     = "GNU.sparse.name"
	realSizeKey = "GNU.sparse.realsize"
	sizeKey     = "size" // of the stored content: map and data
)

// MaxRecords is the largest size, in bytes, that readers accept for an extended header and for a map.
const MaxRecords = 1 << 20

// Extent is a part of a file that is not a hole, in bytes.
type Extent struct{ Offset, Length int64 }

// End returns the offset after the extent.
func (e Extent) End() int64 { return e.Offset + e.Length }

// AppendSparseHeader appends everything that precedes the data of a sparse file, whose size is in h. Programs that do
// not know the form unpack the file under a different name, which number makes unique. If no reader would accept the
// name and the attributes, that is an error.
func AppendSparseHeader(to []byte, h *tar.Header, data []Extent, number int) ([]byte, error) {
	// GNU tar ends the file where the map ends.
	if n := len(data); n == 0 || data[n-1].End() < h.Size {
		data = append(slices.Clip(data), Extent{h.Size, 0})
	}
	text := strconv.AppendInt(nil, int64(len(data)), 10)
	stored := int64(0)
	for _, e := range data {
		text = append(strconv.AppendInt(append(text, '\n'), e.Offset, 10), '\n')
		text = strconv.AppendInt(text, e.Length, 10)
		stored += e.Length
	}
	text = append(text, '\n')
	text = append(text, zeros[:Padding(int64(len(text)))]...)
	stored += int64(len(text))

	records := maps.Clone(h.PAXRecords)
	if records == nil {
		records = make(map[string]string)
	}
	maps.Copy(records, map[string]string{
		majorKey: "1", minorKey: "0", nameKey: h.Name, realSizeKey: strconv.FormatInt(h.Size, 10),
		sizeKey:  strconv.FormatInt(stored, 10),
		mtimeKey: string(appendTime(nil, h.ModTime)), "uid": strconv.Itoa(h.Uid), "gid": strconv.Itoa(h.Gid),
	})
	var extended []byte
	for _, key := range slices.Sorted(maps.Keys(records)) {
		extended = appendRecord(extended, key, records[key])
	}
	if len(extended) > MaxRecords {
		return nil, fmt.Errorf("its name and extended attributes take %d bytes: %w", len(extended),
			errors.ErrUnsupported)
	}
	stub := "GNUSparseFile." + strconv.Itoa(number)
	to = appendExtended(to, "./PaxHeaders.0/"+stub, extended)
	return append(appendBlock(to, tar.TypeReg, "./"+stub, h, stored), text...), nil
}

// mapOf returns the map of a sparse file, and the size of the data that follows. raw is what Go's reader has read until
// it returned the header h; that reader has checked that the map is sorted and within the file. ok is false if anything
// differs from what AppendSparseHeader writes.
func mapOf(raw []byte, h *tar.Header) (data []Extent, sum int64, ok bool) {
	if h.PAXRecords[majorKey] != "1" || h.PAXRecords[minorKey] != "0" {
		return nil, 0, false
	}
	size, kind := int64(0), byte(tar.TypeXHeader)
	for kind == tar.TypeXHeader {
		if len(raw) < BlockSize {
			return nil, 0, false
		}
		var err error
		if size, err = strconv.ParseInt(string(bytes.Trim(raw[124:136], " \x00")), 8, 64); err != nil || size < 0 {
			return nil, 0, false
		}
		kind, raw = raw[156], raw[BlockSize:]
		if kind == tar.TypeXHeader {
			if size > MaxRecords || size+Padding(size) > int64(len(raw)) {
				return nil, 0, false
			}
			raw = raw[size+Padding(size):]
		}
	}
	if text := h.PAXRecords[sizeKey]; text != "" {
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
	data = []Extent{}
	for range number() {
		data = append(data, Extent{number(), number()})
		if !ok {
			return nil, 0, false
		}
		sum += data[len(data)-1].Length
	}
	used := int64(len(raw) - len(rest))
	if !ok || used+Padding(used) != int64(len(raw)) || size != int64(len(raw))+sum {
		return nil, 0, false
	}
	return data, sum, true
}
