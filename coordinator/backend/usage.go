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

// ErrUnknownDisk says that the homes have no disk in common, or none that can be asked.
var ErrUnknownDisk = errors.New("this backend does not know how full the disk of the homes is")
