package backend

import "errors"

// Usage is the content of a home.
type Usage struct {
	// Bytes is the total size of its regular files, and Files the number of its files and folders.
	Bytes, Files int64
	// AtLeast means that there is more that was not counted.
	AtLeast bool
}

// Disk is how full the disk of the home volumes is, in bytes. Space reserved for root counts as neither.
type Disk struct{ Total, Free int64 }

// Used is the share in use, from 0 to 1.
func (d Disk) Used() float64 {
	if d.Total <= 0 {
		return 0
	}
	return 1 - float64(d.Free)/float64(d.Total)
}

// Memory is the memory of a host, and how much of it is left.
type Memory struct {
	// Total and Available are in bytes. Memory that the kernel may drop is available.
	Total, Available int64
	// Stalled is the share of the last 10 s during which at least one program waited for memory, from 0 to 1: PSI's
	// "some avg10". It is 0 if the kernel does not report it.
	Stalled float64
}

// Used is the share in use, from 0 to 1.
func (m Memory) Used() float64 {
	if m.Total <= 0 {
		return 0
	}
	return 1 - float64(m.Available)/float64(m.Total)
}

// ErrUnknownDisk means that the homes do not share a disk, or that the state of their disk is unknown.
var ErrUnknownDisk = errors.New("this backend does not know how full the disk of the homes is")
