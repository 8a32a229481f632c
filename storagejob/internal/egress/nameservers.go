package egress

import (
	"bufio"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// nameservers returns the name servers that the engine asks on behalf of a container, sorted by address. They are those
// in the first file that names a server outside the loopback network. The engine sends these questions from the
// container's own address. The engine itself asks a server on the loopback network, so such a server needs no rule. The
// files are those that the engine reads.
func nameservers(files ...string) []netip.Addr {
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		found := parseNameservers(bufio.NewScanner(f))
		f.Close()
		if len(found) > 0 {
			return found
		}
	}
	return nil
}

func parseNameservers(lines *bufio.Scanner) (found []netip.Addr) {
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && !a.IsLoopback() {
			found = append(found, a.Unmap().WithZone(""))
		}
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found)
}
