package backend

import "time"

// Stats is a running container's resource usage at one moment. Unknown numbers are -1.
type Stats struct {
	At time.Time
	// CPU is the processor time used since the container started. Cores is how many processors it may use at a time; 0
	// means no limit.
	CPU   time.Duration
	Cores float64
	// Memory and MemoryLimit are in bytes. Memory does not include memory that the kernel may reclaim, such as its page
	// cache. A limit of 0 means none.
	Memory, MemoryLimit int64
	Processes           int
	// Ports are the TCP ports that listen on addresses that others can reach, in ascending order. The workspace itself
	// reports them. Nil means unknown.
	Ports []int
	// Local are the TCP ports that listen only on the container's own loopback address. The workspace itself reports
	// them, too.
	Local []int
	// Declared are the TCP ports that the image declares (EXPOSE). Nil means unknown, as on Kubernetes.
	Declared []int
}
