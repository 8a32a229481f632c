package work

import (
	"bufio"
	"bytes"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// wakeUp is how many bytes a program writes to wake itself: it writes one number to an eventfd. Programs do this while
// they wait; programs of Node do it every few seconds.
const wakeUp = 8

// Inside holds observations that are possible only inside a container: which of its programs listen, and when something
// was printed on its terminals. The workspace could forge these observations, but a forgery cannot keep a workspace
// awake.
type Inside struct {
	// Listening are the command lines of the programs that listen on a TCP port, in the form of [comparableArgs].
	Listening map[string]bool
	// Serving are the command lines of those that listen on more than one port of the loopback address, or on another
	// address. A debugger makes the program that it debugs listen on one loopback port.
	Serving map[string]bool
	// Printed is when something was last printed on a terminal, by the terminal's number, in seconds since 1970. The
	// kernel updates it within 8 s.
	Printed map[int]int64
}

// produces reports whether the job has written more than is needed for waiting and answering. A listening program
// produces only its output on its terminal. Any other program produces everything except the writes with which it wakes
// itself. Unknown writes count. A debugged program listens on a port for its debugger. It does not count as a listening
// program because of that port.
func (l look) produces(j job, u used, debugged bool) bool {
	if l.Inside == nil || l.before.Inside == nil {
		return u.written != wakeUp*u.writes || j.members[0].Terminal > 0
	}
	for _, p := range j.members {
		if p.Terminal == 0 {
			continue
		}
		now, known := l.Inside.Printed[p.Terminal-1]
		was, before := l.before.Inside.Printed[p.Terminal-1]
		if !known || !before || now != was {
			return true
		}
	}
	listening := l.Inside.Listening
	if debugged {
		listening = l.Inside.Serving
	}
	if slices.ContainsFunc(j.members, func(p Process) bool { return listening[comparableArgs(p.Args)] }) {
		return false
	}
	return u.written != wakeUp*u.writes
}

// LookInside reports whether the output of [InsideScript] matters for the verdict.
func (s Sample) LookInside() bool {
	return len(s.programs()) > 0 || slices.ContainsFunc(s.foreground(), func(j job) bool { return !j.shell && !viewer(j.name()) })
}

// InsideScript prints the input of [ParseInside]. It needs sh, head, ls and stat, which every image with a shell has.
const InsideScript = `echo "==> inside <=="
stat -c '%n %Y' /dev/pts/[0-9]* 2>/dev/null
head -c 1048576 /proc/net/tcp /proc/net/tcp6 2>/dev/null
ls -l /proc/[0-9]*/fd 2>/dev/null
head -c 8192 /proc/[0-9]*/cmdline 2>/dev/null
exit 0`

// listens is the state of a listening socket in /proc/net/tcp.
const listens = "0A"

// loopback are the loopback addresses in /proc/net/tcp and tcp6; tcp6 also contains IPv4's loopback address.
var loopback = []string{"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}

var (
	folderOf  = regexp.MustCompile(`^/proc/(\d+)/fd:$`)
	fileOf    = regexp.MustCompile(`^==> (?:/proc/(\d+)/cmdline|(.*)) <==$`)
	socketOf  = regexp.MustCompile(` -> socket:\[(\d+)\]$`)
	printedOn = regexp.MustCompile(`^/dev/pts/(\d+) (\d+)$`)
)

// maxArgs is how many bytes of two command lines are compared.
const maxArgs = 4000

// comparableArgs returns a command line in a form that can be compared even if two tools show the line differently. The
// tools that show processes replace control characters and unknown letters with a blank or a question mark, and moby
// merges successive blanks.
func comparableArgs(args string) string {
	fields := strings.FieldsFunc(args, func(r rune) bool { return r <= ' ' || r > '~' || r == '?' })
	args = strings.Join(fields, " ")
	return args[:min(len(args), maxArgs)]
}

// ParseInside reads the output of [InsideScript].
func ParseInside(out []byte) *Inside {
	in := &Inside{Listening: make(map[string]bool), Serving: make(map[string]bool), Printed: make(map[int]int64)}
	addresses := make(map[string]string) // of the listening sockets
	owners := make(map[string][]string)  // the listening sockets of each process
	var args strings.Builder             // of the process that is being read, possibly several lines
	file, folder, process := "", "", ""
	end := func() {
		if line, sockets := comparableArgs(args.String()), owners[process]; len(sockets) > 0 && line != "" {
			in.Listening[line] = true
			if len(sockets) > 1 || !slices.Contains(loopback, addresses[sockets[0]]) {
				in.Serving[line] = true
			}
		}
		args.Reset()
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	lines.Buffer(nil, len(out)+1)
	for lines.Scan() {
		line := lines.Text()
		if m := fileOf.FindStringSubmatch(line); m != nil {
			end()
			process, file = m[1], m[2]
			continue
		}
		if process != "" {
			args.WriteString(line + "\n")
			continue
		}
		if m := folderOf.FindStringSubmatch(line); m != nil {
			folder, file = m[1], ""
			continue
		}
		if m := printedOn.FindStringSubmatch(line); m != nil && file == "inside" {
			n, _ := strconv.Atoi(m[1])
			in.Printed[n], _ = strconv.ParseInt(m[2], 10, 64)
			continue
		}
		if strings.HasPrefix(file, "/proc/net/tcp") {
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == listens {
				addresses[fields[9]], _, _ = strings.Cut(fields[1], ":")
			}
		} else if m := socketOf.FindStringSubmatch(line); m != nil && addresses[m[1]] != "" && !slices.Contains(owners[folder], m[1]) {
			owners[folder] = append(owners[folder], m[1])
		}
	}
	end()
	return in
}
