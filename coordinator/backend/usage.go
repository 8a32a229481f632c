package backend

import "errors"

// Usage is what a home holds.
type Usage struct {
	// Bytes is the sum of its regular files, Files the number of its files and folders.
	Bytes, Files int64
	// AtLeast says that there is more, which was not counted.
	AtLeast bool
}

// Disk is how full the disk of the home volumes is, in bytes. What only root may use
// counts as neither.
type Disk struct{ Total, Free int64 }

// Used is the share that is in use, from 0 to 1.
func (d Disk) Used() float64 {
	if d.Total <= 0 {
		return 0
	}
	return 1 - float64(d.Free)/float64(d.Total)
}

// Memory is how much memory a host has, and how much of it is left.
type Memory struct {
	// Total and Available are in bytes. What the kernel may drop is available.
	Total, Available int64
	// Stalled is the share of the last 10 s in which something waited for memory, from 0 to 1: PSI's
	// "some avg10". It is 0 where the kernel does not tell.
	Stalled float64
}

// Used is the share that is in use, from 0 to 1.
func (m Memory) Used() float64 {
	if m.Total <= 0 {
		return 0
	}
	return 1 - float64(m.Available)/float64(m.Total)
}

// ErrUnknownDisk says that the homes have no disk in common, or none that can be asked.
var ErrUnknownDisk = errors.New("this backend does not know how full the disk of the homes is")
