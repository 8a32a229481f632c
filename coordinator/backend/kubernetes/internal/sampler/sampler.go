// Package sampler looks into the Pods of workspaces on a Kubernetes cluster, for signs of work.
//
// It owns how a [work.Sample] is taken: the script that shows the processes and the busy file, and the command from the
// settings. It must not judge the sample, nor change anything in a Pod.
package sampler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/internal/work"
)

const (
	// lookLimit bounds the time of a look, and askLimit that of the command from the settings.
	lookLimit = 10 * time.Second
	askLimit  = 5 * time.Second
	// maxLook bounds the output of a look, in bytes.
	maxLook = 4 << 20
	// busyLineLimit is how much of a busy file's first line is read, in bytes.
	busyLineLimit = 1 << 10
	// maxDepth bounds how many ancestors of a process are followed.
	maxDepth = 16
	// ticks is the number of the kernel's units of CPU time in a second. Programs see the same number on all platforms.
	ticks = 100
)

// lookScript prints the kernel's data on all processes, and the file with which a program reports that it works. It
// needs sh, head, stat and date, which any image with a shell has. It starts few processes: head prints the name of
// each file before its content. The first line is the script's own process. A link does not count as a busy file,
// because it would reveal the first line of another file.
const lookScript = `echo $$
head -c 8192 /proc/[0-9]*/stat /proc/[0-9]*/io /proc/[0-9]*/cmdline 2>/dev/null
f=` + spec.Home + "/" + work.BusyFile + `
[ -f "$f" ] && [ ! -L "$f" ] && echo && echo "==> busy <==" && stat -c %Y "$f" && date +%s &&
	head -c 1024 "$f" 2>/dev/null
echo
` + work.InsideScript

// Sample looks into a workspace's Pod with one small command in its container. If the container does not run, the error
// is [backend.ErrNotFound].
func Sample(ctx context.Context, api *cluster.Client, p *corev1.Pod) (work.Sample, error) {
	var s work.Sample
	c := running(p)
	if c == nil {
		return s, fmt.Errorf("pod %s: %w", p.Name, backend.ErrNotFound)
	}
	doing := "looking into pod " + p.Name
	at := time.Now()
	out, code, err := shell(ctx, api, p, lookLimit, lookScript)
	if err != nil {
		return s, cluster.Wrap(doing, err)
	}
	if code != 0 {
		return s, fmt.Errorf("%s: its shell ends with %d; a look needs sh, head, stat and date in the image", doing,
			code)
	}
	if s, err = parseLook(out, p.Spec.ShareProcessNamespace != nil && *p.Spec.ShareProcessNamespace); err != nil {
		return s, fmt.Errorf("%s: %w", doing, err)
	}
	s.At, s.Container = at, string(p.UID)+" "+c.ContainerID
	if command := p.Annotations[spec.AnnotationBusy]; command != "" {
		s.Label = askCommand(ctx, api, p, command)
	}
	return s, nil
}

// Running reports whether the workspace's container runs.
func Running(p *corev1.Pod) bool { return running(p) != nil }

// running returns the status of the workspace's container, or nil if it does not run.
func running(p *corev1.Pod) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.Name == spec.Container && c.State.Running != nil {
			return c
		}
	}
	return nil
}

// shell runs a shell command in the workspace's container, as its user.
func shell(ctx context.Context, api *cluster.Client, p *corev1.Pod, limit time.Duration, script string) (
	out []byte, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w := backend.Limited{Max: maxLook}
	code, err = api.Exec(ctx, p.Name, spec.Container, backend.Command{Words: []string{"sh", "-c", script}}, &w, nil)
	return w.Bytes(), code, err
}

// askCommand runs the command that reports whether the workspace is busy.
func askCommand(ctx context.Context, api *cluster.Client, p *corev1.Pod, command string) work.Answer {
	_, code, err := shell(ctx, api, p, askLimit, "("+command+"\n) </dev/null >/dev/null 2>&1")
	switch {
	case err != nil:
		return work.NoAnswer
	case code == 0:
		return work.Busy
	}
	return work.Idle
}

// lookHeader matches the line before each file that the script prints.
var lookHeader = regexp.MustCompile(`(?m)^==> (?:/proc/(\d+)/(stat|io|cmdline)|busy) <==\n`)

// parseLook parses the output of lookScript. If the Pod's containers share a process namespace, process 1 belongs to
// the Pod itself and adopts orphaned processes. The application is then the first other process that the node started.
// Processes whose data cannot be parsed have ended, or belong to another user.
func parseLook(out []byte, shared bool) (work.Sample, error) {
	s := work.Sample{Terminals: true}
	out, inside, _ := bytes.Cut(out, []byte("\n==> inside <==\n"))
	line, _, _ := bytes.Cut(out, []byte("\n"))
	self, err := strconv.Atoi(string(line))
	headers := lookHeader.FindAllSubmatchIndex(out, -1)
	if err != nil || len(headers) == 0 {
		return s, errors.New("it does not print the output of a shell")
	}
	of := make(map[int]*work.Process)
	var order []int
	for i, h := range headers {
		end := len(out)
		if i+1 < len(headers) {
			end = headers[i+1][0]
		}
		body := out[h[1]:end]
		if h[2] < 0 {
			s.File = parseBusy(string(body))
			continue
		}
		pid, _ := strconv.Atoi(string(out[h[2]:h[3]]))
		switch p := of[pid]; string(out[h[4]:h[5]]) {
		case "stat":
			if p, ok := parseStat(string(body)); ok && p.PID == pid {
				of[pid] = &p
				order = append(order, pid)
			}
		case "io":
			if p != nil {
				p.Written, p.Writes = parseIO(string(body), "wchar: "), max(parseIO(string(body), "syscw: "), 0)
			}
		case "cmdline":
			if p != nil {
				p.Args = strings.TrimSpace(strings.ReplaceAll(string(body), "\x00", " "))
			}
		}
	}
	ours := func(p *work.Process) bool {
		for depth := 0; p != nil && depth < maxDepth; depth++ {
			if p.PID == self || p.Parent == 0 && strings.Contains(p.Args, ": "+usageMark) {
				return true
			}
			p = of[p.Parent]
		}
		return false
	}
	for _, pid := range order {
		p := of[pid]
		if shared && pid == 1 || ours(p) {
			continue
		}
		if p.Parent == 0 && (s.Main == 0 || pid < s.Main) {
			s.Main = pid
		}
		s.Processes = append(s.Processes, *p)
	}
	if s.Main == 0 {
		return s, errors.New("it does not show the application")
	}
	s.Inside = work.ParseInside(append([]byte("==> inside <==\n"), inside...))
	return s, nil
}

// parseStat parses /proc/PID/stat, in which the program's name may contain anything.
func parseStat(text string) (p work.Process, ok bool) {
	const first, tty, tpgid, cutime, cstime = 1, 4, 5, 13, 14 // indexes of the fields after the name
	open, close := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || close < open {
		return p, false
	}
	fields := strings.Fields(text[close+1:])
	if len(fields) <= cstime {
		return p, false
	}
	var n [cstime + 1]int64
	var err error
	for i := first; i <= cstime; i++ {
		var e error
		// The number of page faults may not fit into an int64, but that number is not needed.
		if n[i], e = strconv.ParseInt(fields[i], 10, 64); i <= tpgid || i > cutime-3 {
			err = errors.Join(err, e)
		}
	}
	pid, e := strconv.Atoi(strings.TrimSpace(text[:open]))
	if errors.Join(err, e) != nil {
		return p, false
	}
	cpu := n[11] + n[12] + n[cutime] + n[cstime]
	return work.Process{
		PID: pid, Parent: int(n[1]), Group: int(n[2]), Session: int(n[3]), Foreground: int(n[tpgid]),
		CPU: time.Duration(cpu) * time.Second / ticks, Written: -1, Terminal: pseudoterminal(n[tty]),
	}, true
}

// pseudoterminal converts a terminal's device number to the number in [work.Process].
func pseudoterminal(device int64) int {
	const major = 136
	if device>>8&0xfff != major {
		return 0
	}
	return int(device&0xff|device>>12&0xfff00) + 1
}

// parseIO returns the value of that name in /proc/PID/io, or -1.
func parseIO(text, name string) int64 {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(line, name); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}

// parseBusy parses the age of the busy file and its first line.
func parseBusy(text string) *work.File {
	modified, rest, _ := strings.Cut(text, "\n")
	now, content, _ := strings.Cut(rest, "\n")
	from, err := strconv.ParseInt(modified, 10, 64)
	to, e := strconv.ParseInt(now, 10, 64)
	if errors.Join(err, e) != nil {
		return nil
	}
	line, _, _ := strings.Cut(content, "\n")
	return &work.File{Age: time.Duration(to-from) * time.Second, Line: backend.CleanText(line, busyLineLimit)}
}
