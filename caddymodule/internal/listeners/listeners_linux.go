package listeners

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Others returns the sockets of other processes that listen on one of the TCP addresses, or on an address that includes
// it. It leaves out the sockets of this process, because a reload shares them on purpose.
func Others(addresses []netip.AddrPort) ([]Listener, error) {
	found := make(map[string]Listener) // by inode
	for _, file := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if err := readTable(file, addresses, found); err != nil {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	for _, inode := range socketsOf("self") {
		delete(found, inode)
	}
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		if len(found) == 0 {
			break
		}
		pid, _ := strconv.Atoi(filepath.Base(process))
		for _, inode := range socketsOf(filepath.Base(process)) {
			if l, ok := found[inode]; ok && l.PID == 0 {
				name, _ := os.ReadFile(filepath.Join(process, "comm")) // fails if the process has ended
				l.PID, l.Program = pid, strings.TrimSpace(string(name))
				found[inode] = l
			}
		}
	}
	var out []Listener
	for _, l := range found {
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Listener) int { return a.Address.Compare(b.Address) })
	return out, nil
}

// readTable adds the listening sockets in one of the kernel's tables that overlap with one of the addresses.
func readTable(file string, addresses []netip.AddrPort, found map[string]Listener) error {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no IPv6
	}
	if err != nil {
		return fmt.Errorf("reading the listening sockets: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// sl local_address rem_address st … uid timeout inode
		const listening = "0A"
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listening {
			continue
		}
		at, err := parseAddress(fields[1])
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		for _, wanted := range addresses {
			if overlaps(wanted, at) {
				found[fields[9]] = Listener{Address: at}
			}
		}
	}
	return lines.Err()
}

// parseAddress reads an address such as 0100007F:1F90. The host consists of words in the machine's byte order, which is
// little endian on every platform of this product; the port is big endian.
func parseAddress(s string) (netip.AddrPort, error) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b) != 4 && len(b) != 16 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address", s)
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip, uint16(n)), nil
}

// socketsOf returns the inodes of a process's sockets, or none if this process cannot inspect it.
func socketsOf(process string) (inodes []string) {
	dir := filepath.Join("/proc", process, "fd")
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		link, _ := os.Readlink(filepath.Join(dir, e.Name()))
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes
}
