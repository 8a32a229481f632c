// Package work decides whether an unused workspace is working, from two looks at it (SPEC 6). It owns what counts as
// work, and the settings for that. Judging is pure: it does no I/O and does not read the clock. Package backend looks,
// and package ttl asks. Only [Notebooks] uses the network. The package believes a workspace's own statements only as
// far as SPEC 6 allows.
//
// The difference between working and waiting was measured on Docker Engine 20.10 with procps 4.0.2. The looks were 20 s
// apart, and each command was typed into a shell on its own terminal:
//
//	foreground job                     bytes written   CPU (ms/s)
//	while :; do date; sleep 1; done    29 /s           2, in children that have ended
//	perl that prints every second      2 /s            0
//	top                                280 /s          0.3
//	watch -n 2 date                    58 /s           0.5
//	a shell that starts compilers      any             340, in children that have ended
//	node, computing every second       0               200
//	sleep 600, less, vim, idle node    0               0
//	while :; do sleep 1; done          0               1
//
// A waiting program of Node wakes itself every few seconds by writing 8 bytes to an eventfd, and a server that answers
// writes to sockets. Neither counts as work (waiting.go).
//
// So two figures reveal work. The bytes that a job has written reveal printing, downloading and building. /proc/PID/io
// counts them: to the terminal, to files and to sockets, including what ended children wrote. CPU time reveals
// computing. Both are zero for a waiting job. Only viewers, which redraw the same screen again and again, must be known
// by name. The application itself is never judged: an open code-server tab without input uses 26 ms/s and writes many
// bytes. It has its own session (setsid), which terminals, kernels and daemons leave.
//
// Programs that people debug stay in that session, as children of the application, and so do language servers and other
// helpers. Their files distinguish them (program.go): When a person starts Run and Debug in code-server 4.139, it runs
// "node ./app.js". All helpers, however, run files of the editor or its extensions. A program at a breakpoint writes
// and computes nothing, and so does not count as working.
package work

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Settings].
const (
	DefaultCPU = 50 * time.Millisecond
	DefaultCap = 12 * time.Hour
)

// BusyFile is a file below the home folder. A program in the workspace modifies it to report that it is working. The
// report is valid until the TTL has passed since the last modification. Its first line is the reason.
const BusyFile = ".codehub/busy"

// BusyLabel is the label of an image that names a shell command. The command exits with 0 in the workspace while the
// workspace is busy.
const BusyLabel = "codehub.busy"

// Settings define what counts as work.
type Settings struct {
	// CPU is a CPU time per second. A program that writes nothing or runs in the background counts as working if it
	// uses at least that much. The application's own CPU time never counts. Default: [DefaultCPU].
	CPU time.Duration
	// Cap is how long after its last use a workspace may stay awake because of work.
	// Default: [DefaultCap].
	Cap time.Duration
	// Commands are the names of programs that always count while they are in the foreground of a terminal. They are
	// coding agents, which wait for answers for hours. Default: [DefaultCommands].
	Commands []string
}

// DefaultCommands returns the coding agents that people run in terminals, by the names of
// their commands and packages.
func DefaultCommands() []string {
	return []string{"claude", "claude-code", "codex", "gemini", "gemini-cli", "aider", "opencode", "goose", "amp",
		"cursor-agent",
		"copilot", "crush", "qwen", "qwen-code", "auggie", "cline", "droid", "openhands", "plandex"}
}

// DefaultSettings returns the settings of SPEC 6.
func DefaultSettings() Settings {
	return Settings{CPU: DefaultCPU, Cap: DefaultCap, Commands: DefaultCommands()}
}

// commandName matches possible names of a program.
var commandName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}$`)

// Validate reports everything that is wrong with the settings, under their names in the
// configuration.
func (s Settings) Validate() error {
	var errs []error
	if s.Cap <= 0 {
		errs = append(errs, setting.Errorf("work cap", "must be a duration above zero, such as 12h, not %s", s.Cap))
	}
	for _, c := range s.Commands {
		if !commandName.MatchString(c) {
			errs = append(errs, setting.Errorf("work keep_awake_commands", "%q is not the name of a command; give names "+
				"without folders and arguments, such as claude", c))
		}
	}
	return errors.Join(errs...)
}

// Sample is the result of one look at a workspace.
type Sample struct {
	// At is when it was taken.
	At time.Time
	// Container identifies the container's incarnation: only samples of the same incarnation can be compared.
	Container string
	// Processes are all processes of the container; Main is the id of the process that the engine has started, or of
	// its init.
	Processes []Process
	Main      int
	// Terminals says that the backend can tell which programs are in the foreground of terminals. Otherwise nothing is
	// known about terminals, and they are not judged.
	Terminals bool
	// File is [BusyFile], or nil if there is none.
	File *File
	// Label is the answer of the command in [BusyLabel].
	Label Answer
	// Kernel is the name of a busy notebook kernel, or empty if none is known.
	Kernel string
	// Inside is what the kernel tables inside the container say; nil if unknown.
	Inside *Inside
	// KernelsUnknown says that the application has not reported in time whether a kernel is busy.
	KernelsUnknown bool
}

// Process is a process of a workspace, with the process ids of the engine's host.
type Process struct {
	PID, Parent, Group, Session int
	// Foreground is the group in the foreground of the process's terminal, -1 if it has none.
	Foreground int
	// CPU is the CPU time that the process has used so far, and Written is how many bytes it has written. Both include
	// the figures of ended children. Written is -1 if the engine's host cannot tell.
	CPU     time.Duration
	Written int64
	// Writes is the number of calls that wrote those bytes, or 0 if the engine's host cannot tell.
	Writes int64
	// Terminal is the process's pseudoterminal: its number below /dev/pts plus one, or 0 if it has none.
	Terminal int
	// Args is the command line, separated by spaces. The process itself may have changed it.
	Args string
}

// File is a file with which a program says that it is working.
type File struct {
	Age time.Duration
	// Line is the file's first line, truncated. It comes from the workspace, so it must not be believed.
	Line string
}

// Answer is the answer of a command.
type Answer string

// The answers. Unasked means that the image names no command.
const (
	Unasked  Answer = ""
	Busy     Answer = "busy"
	Idle     Answer = "idle"
	NoAnswer Answer = "none"
)

// Verdict is the conclusion from the looks at a workspace.
type Verdict struct {
	// Known is false after the first look, because there is no earlier look to compare with. The workspace then stays
	// awake until the next look.
	Known bool
	// Reason is one of the Busy constants of package workspace, or empty if the workspace is idle; Detail names the
	// busy program or kernel.
	Reason, Detail string
}

// maxDetail bounds how much of a name from a workspace is shown, in runes.
const maxDetail = 120

// Clean makes a text from a workspace safe to show: one line of bounded length, without control characters.
func Clean(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(s, "")), "\n")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxDetail {
		s = string(r[:maxDetail-1]) + "…"
	}
	return strings.TrimSpace(s)
}

// Judge decides whether the workspace is working, from this look and the previous one; before is nil at the first look.
// ttl is how long a workspace may be unused.
func (s Settings) Judge(before *Sample, now Sample, ttl time.Duration) Verdict {
	for _, rule := range rules {
		if detail, busy := rule.applies(s, look{now, before, ttl}); busy {
			return Verdict{Known: true, Reason: rule.reason, Detail: Clean(detail)}
		}
	}
	return Verdict{Known: comparable(before, now)}
}

// comparable reports whether the time between two looks can be judged.
func comparable(before *Sample, now Sample) bool {
	return before != nil && before.Container == now.Container && now.At.After(before.At)
}

// look is a look with the previous one.
type look struct {
	Sample
	before *Sample
	ttl    time.Duration
}

// rules define what counts as work. The first rule that applies is shown as the reason. For each rule, TestJudge has
// cases in which it must apply and cases in which it must not.
var rules = []struct {
	reason  string
	applies func(Settings, look) (detail string, busy bool)
}{
	{workspace.BusyCommand, Settings.commandInForeground},
	{workspace.BusyTerminal, Settings.jobInForeground},
	{workspace.BusyKernel, func(_ Settings, l look) (string, bool) { return l.Kernel, l.Kernel != "" }},
	{workspace.BusyFile, func(_ Settings, l look) (string, bool) {
		if l.File == nil || l.File.Age >= l.ttl {
			return "", false
		}
		return l.File.Line, true
	}},
	{workspace.BusyImage, func(_ Settings, l look) (string, bool) { return "", l.Label == Busy }},
	{workspace.BusyNoAnswer, func(_ Settings, l look) (string, bool) {
		return "", l.Label == NoAnswer || l.KernelsUnknown
	}},
	{workspace.BusyBackground, Settings.computesInBackground},
	{workspace.BusyBackground, Settings.isDebugged},
}

// commandInForeground: one of the commands is in the foreground of a terminal.
func (s Settings) commandInForeground(l look) (string, bool) {
	for _, p := range l.Processes {
		if p.Foreground < 0 || p.Group != p.Foreground {
			continue
		}
		for _, name := range names(p.Args) {
			if slices.Contains(s.Commands, name) {
				return name, true
			}
		}
	}
	return "", false
}

// jobInForeground: the foreground program of a terminal computes, or it has written more since the previous look than
// is needed for waiting and answering. The shell counts together with its job: the shell's figures include those of its
// ended children, and every program that a loop in the shell has run is soon an ended child.
func (s Settings) jobInForeground(l look) (string, bool) {
	if !comparable(l.before, l.Sample) {
		return "", false
	}
	for _, job := range l.foreground() {
		name := job.name()
		used := job.since(l.before)
		if used.cpu >= s.enough(l) || !viewer(name) && (used.written > 0 && l.produces(job, used, false) ||
			used.written < 0 && !job.waits()) {
			return name, true
		}
	}
	return "", false
}

// computesInBackground: a session other than the application's uses CPU time. Such a session was started from a
// terminal, or belongs to a notebook kernel or a daemon.
func (s Settings) computesInBackground(l look) (string, bool) {
	if !comparable(l.before, l.Sample) {
		return "", false
	}
	application := l.application()
	sessions := make(map[int][]Process)
	for _, p := range l.Processes {
		if len(application) > 0 && !inSessionOf(application, p) {
			sessions[p.Session] = append(sessions[p.Session], p)
		}
	}
	for _, members := range sessions {
		if (job{members: members}).since(l.before).cpu >= s.enough(l) {
			return busiest(l.before, members), true
		}
	}
	return "", false
}

// isDebugged: a person's own program that the application has started without a terminal is working. That is, it has
// written something since the previous look, or it or its descendants use CPU time.
func (s Settings) isDebugged(l look) (string, bool) {
	if !comparable(l.before, l.Sample) {
		return "", false
	}
	var members []Process
	for _, p := range l.programs() {
		alone := job{members: []Process{p}}
		if was := l.before.find(p); was.PID != 0 && was.Written >= 0 && p.Written > was.Written &&
			l.produces(alone, alone.since(l.before), true) {
			return name(p.Args), true
		}
		members = append(members, p)
	}
	cpu := job{members: members}.since(l.before).cpu
	return busiest(l.before, members), len(members) > 0 && cpu >= s.enough(l)
}

// enough returns how much CPU time a program must have used between the two looks to count as working. The figures of a
// process are rounded down to whole seconds, so an increase by one second proves nothing.
func (s Settings) enough(l look) time.Duration {
	seconds := l.At.Sub(l.before.At).Seconds()
	return max(time.Duration(seconds*float64(s.CPU)), resolution+1)
}

// resolution is the resolution of a process's CPU time.
const resolution = time.Second
