// Package glance reports the processes of a container, by one small command in it. The workspace controls the answer,
// so it may only be displayed.
package glance

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Command prints the number of processes including its own, and the sockets. If the kernel's counters for the container
// are visible inside it (cgroup v2), it prints these, too. It needs sh and head in the image.
var Command = []string{"sh", "-c", `set -- /proc/[0-9]*
echo $#
head -c 1048576 /proc/net/tcp /proc/net/tcp6 /sys/fs/cgroup/cpu.stat /sys/fs/cgroup/memory.current \
	/sys/fs/cgroup/memory.stat 2>/dev/null
exit 0`}

// MaxOutput bounds the output of Command, in bytes.
const MaxOutput = 4 << 20

// Seen is the result of a glance. Unknown numbers are -1.
type Seen struct {
	// Processes are those other than the command itself.
	Processes int
	// Ports are the TCP ports that listen on addresses other than loopback ones, in ascending order.
	Ports []int
	// Local are those that listen on 127.0.0.1 or ::1 only, in ascending order: nothing outside the container reaches
	// them.
	Local []int
	// CPU is the processor time used so far.
	CPU time.Duration
	// Memory is in bytes. It excludes the contents of files that the kernel keeps in memory and may drop.
	Memory int64
}

// listens is the state of a listening socket.
const listens = "0A"

// Parse parses the output of Command.
func Parse(out []byte) Seen {
	s := Seen{Processes: -1, CPU: -1, Memory: -1}
	file := ""
	dropped := int64(0)
	lines := bufio.NewScanner(bytes.NewReader(out))
	for first := true; lines.Scan(); first = false {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "==> "); ok {
			file = strings.TrimSuffix(name, " <==")
			continue
		}
		fields := strings.Fields(line)
		switch {
		case first:
			if n, err := strconv.Atoi(line); err == nil && n > 0 {
				s.Processes = n - 1
			}
		case len(fields) > 3 && strings.HasPrefix(file, "/proc/net/tcp") && fields[3] == listens:
			switch port, scope := listener(fields[1]); scope {
			case reachable:
				s.Ports = append(s.Ports, port)
			case local:
				s.Local = append(s.Local, port)
			}
		case len(fields) == 2 && fields[0] == "usage_usec":
			if n, err := strconv.ParseInt(fields[1], 10, 64); err == nil && n >= 0 {
				s.CPU = time.Duration(n) * time.Microsecond
			}
		case len(fields) == 2 && fields[0] == "inactive_file":
			dropped, _ = strconv.ParseInt(fields[1], 10, 64)
		case len(fields) == 1 && strings.HasSuffix(file, "/memory.current"):
			if n, err := strconv.ParseInt(fields[0], 10, 64); err == nil && n >= 0 {
				s.Memory = n
			}
		}
	}
	if s.Memory >= 0 {
		s.Memory = max(0, s.Memory-max(0, dropped))
	}
	s.Ports = sorted(s.Ports)
	s.Local = slices.DeleteFunc(sorted(s.Local), func(port int) bool { return slices.Contains(s.Ports, port) })
	return s
}

// sorted returns the ports in ascending order, without repetitions.
func sorted(ports []int) []int {
	slices.Sort(ports)
	return slices.Compact(ports)
}

// scope describes who can reach a listening address.
type scope int

const (
	unknown   scope = iota // also for other loopback addresses, such as that of the engine's name server
	local                  // only the container itself
	reachable              // others, too
)

// listener returns the port of an address in the kernel's form, and who can reach it. Each four bytes of the address
// are in the machine's byte order, the least significant one first.
func listener(address string) (port int, reach scope) {
	host, text, _ := strings.Cut(address, ":")
	ip, err := hex.DecodeString(host)
	n, portErr := strconv.ParseUint(text, 16, 16)
	if err != nil || portErr != nil || len(ip) != 4 && len(ip) != 16 || n == 0 {
		return 0, unknown
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	if len(ip) == 16 {
		last := ip[12:]
		switch {
		case bytes.Equal(ip[:12], []byte{10: 0xff, 11: 0xff}): // an IPv4 address
			ip = last
		case bytes.Equal(ip, []byte{15: 1}): // ::1
			return int(n), local
		}
	}
	switch {
	case bytes.Equal(ip, []byte{127, 0, 0, 1}):
		return int(n), local
	case len(ip) == 4 && ip[0] == 127:
		return 0, unknown
	}
	return int(n), reachable
}
