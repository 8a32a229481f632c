package backend

import "time"

// Stats is what a running container uses at a moment. Numbers are -1 where they are not known.
type Stats struct {
	At time.Time
	// CPU is the processor time used since the container started. Cores is how many processors it may
	// use at a time; 0 is no limit.
	CPU   time.Duration
	Cores float64
	// Memory and its limit are in bytes, the first without what the kernel may drop; a limit of 0 is none.
	Memory, MemoryLimit int64
	Processes           int
	// Ports are the TCP ports that listen on addresses which others reach, the lowest first. The
	// workspace says so itself. Nil where nothing is known.
	Ports []int
	// Local are the TCP ports that listen on the container's own loopback address alone. The workspace
	// says so itself, too.
	Local []int
	// Declared are the TCP ports that the image declares (EXPOSE). Nil where that is not known, as on
	// Kubernetes.
	Declared []int
}
