package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Stats is the momentary resource use of a running workspace, as programs see it. Unknown values and
// missing limits are null.
type Stats struct {
	At     time.Time   `json:"at"`
	CPU    CPUStats    `json:"cpu"`
	Memory MemoryStats `json:"memory"`
	Home   HomeStats   `json:"home"`
	// The number of processes in the container.
	Processes *int64 `json:"processes"`
	// The listening TCP ports that the gateway can reach, without the application's own.
	Ports []Port `json:"ports"`
}

// CPUStats is the processor time used since the container started, and how many processors it may use.
type CPUStats struct {
	Seconds *float64 `json:"seconds"`
	Limit   *float64 `json:"limit_cores"`
}

// MemoryStats is the memory in use and its limit.
type MemoryStats struct {
	Used  *int64 `json:"used_bytes"`
	Limit *int64 `json:"limit_bytes"`
}

// HomeStats is the size of the home when it was last measured, its limit, and the free space on the disk
// of the homes.
type HomeStats struct {
	Used  *int64 `json:"used_bytes"`
	Limit *int64 `json:"limit_bytes"`
	Free  *int64 `json:"disk_free_bytes"`
}

// Port is a listening port and its address for people; null if ports have no addresses.
type Port struct {
	Port int     `json:"port"`
	URL  *string `json:"url"`
}

// StatsOf returns the resource use of a workspace, as programs see it. free is the free space on the disk of
// the homes, own the port of the application, and url returns the address of a port, empty for none.
func StatsOf(s backend.Stats, home workspace.HomeSize, free int64, own int, url func(port int) string) Stats {
	out := Stats{
		At: s.At.UTC(), Memory: MemoryStats{Used: known(s.Memory), Limit: numberOrNull(s.MemoryLimit)},
		Home: HomeStats{Free: known(free)}, Processes: known(int64(s.Processes)), Ports: []Port{},
	}
	if s.CPU >= 0 {
		seconds := s.CPU.Seconds()
		out.CPU.Seconds = &seconds
	}
	if s.Cores > 0 {
		out.CPU.Limit = &s.Cores
	}
	if !home.MeasuredAt.IsZero() {
		out.Home.Used = &home.Bytes
	}
	for _, port := range s.Ports {
		if port != own {
			out.Ports = append(out.Ports, Port{port, orNull(url(port))})
		}
	}
	return out
}

// known makes a negative number null.
func known(n int64) *int64 {
	if n < 0 {
		return nil
	}
	return &n
}
