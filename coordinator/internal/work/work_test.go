package work

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

var began = time.Unix(1_000_000, 0)

// after is a look so many seconds later, at an application with a shell on a terminal and
// what is given.
func after(seconds int, more ...Process) Sample {
	return Sample{
		At: began.Add(time.Duration(seconds) * time.Second), Container: "c", Main: 10, Terminals: true,
		Processes: append([]Process{
			{PID: 10, Parent: 1, Group: 10, Session: 10, Foreground: -1, Args: "/sbin/docker-init -- code-server"},
			{PID: 11, Parent: 10, Group: 11, Session: 10, Foreground: -1, CPU: time.Duration(seconds) * 100 * time.Millisecond,
				Written: int64(seconds) * 1000, Args: "node /usr/lib/code-server"},
		}, more...),
	}
}

// shell is a shell on a terminal with that group in the foreground, runs a process of its.
func shell(foreground int, used time.Duration, written int64) Process {
	return Process{PID: 20, Parent: 11, Group: 20, Session: 20, Foreground: foreground, CPU: used, Written: written, Args: "-bash"}
}

// debugged is a process without a terminal that the application has started.
func debugged(args string, used time.Duration, written int64) Process {
	return Process{PID: 50, Parent: 11, Group: 10, Session: 10, Foreground: -1, CPU: used, Written: written, Args: args}
}

func runs(pid int, args string, used time.Duration, written int64) Process {
	return Process{PID: pid, Parent: 20, Group: 30, Session: 20, Foreground: 30, CPU: used, Written: written, Args: args}
}

func with(s Sample, change func(*Sample)) Sample { change(&s); return s }

// TestJudge lists what is work and what is not. The looks are a minute apart.
func TestJudge(t *testing.T) {
	const s = time.Second
	two := func(before, now []Process) [2]Sample { return [2]Sample{after(0, before...), after(60, now...)} }
	procs := func(p ...Process) []Process { return p }
	for _, c := range []struct {
		name           string
		looks          [2]Sample
		reason, detail string
	}{
		{"only the application, whatever it uses", two(nil, nil), "", ""},
		{"a shell that waits", two(procs(shell(20, 0, 100)), procs(shell(20, 0, 100))), "", ""},
		{"a job that sleeps", two(procs(shell(30, 0, 0), runs(30, "sleep 600", 0, 0)), procs(shell(30, 0, 0), runs(30, "sleep 600", 0, 0))), "", ""},
		{"a job that prints", two(procs(shell(30, 0, 0), runs(30, "perl x.pl", 0, 10)), procs(shell(30, 0, 0), runs(30, "perl x.pl", 0, 130))), workspace.BusyTerminal, "x"},
		{"a new job that has printed", two(procs(shell(20, 0, 0)), procs(shell(30, 0, 0), runs(30, "make all", 0, 5))), workspace.BusyTerminal, "make"},
		{"a loop whose children have ended", two(procs(shell(30, 0, 100), runs(31, "sleep 1", 0, 0)), procs(shell(33, 0, 1800), Process{PID: 33, Group: 33, Session: 20, Foreground: 33, Args: "sleep 1"})), workspace.BusyTerminal, "bash"},
		{"a job that computes and prints nothing", two(procs(shell(30, 0, 0), runs(30, "gcc x.c", s, 0)), procs(shell(30, 0, 0), runs(30, "gcc x.c", 5*s, 0))), workspace.BusyTerminal, "gcc"},
		{"a job whose children compute and end", two(procs(shell(30, 0, 0), runs(30, "make", 0, 0)), procs(shell(30, 0, 0), runs(30, "make", 10*s, 0))), workspace.BusyTerminal, "make"},
		{"a job below the threshold", two(procs(shell(30, 0, 0), runs(30, "node", 0, 7)), procs(shell(30, 0, 0), runs(30, "node", 2*s, 7))), "", ""},
		{"a viewer that draws", two(procs(shell(30, 0, 0), runs(30, "top", 0, 0)), procs(shell(30, 0, 0), runs(30, "top", s, 9000))), "", ""},
		{"an editor that computes", two(procs(shell(30, 0, 0), runs(30, "vim x", 0, 0)), procs(shell(30, 0, 0), runs(30, "vim x", 20*s, 9000))), workspace.BusyTerminal, "vim"},
		{"another process with the same id", two(procs(shell(30, 0, 0), runs(30, "x", 50*s, 9000)), procs(shell(30, 0, 0), runs(30, "y", 0, 0))), "", ""},
		{"another container with the same ids", [2]Sample{after(0, shell(30, 0, 0), runs(30, "make", 0, 0)),
			with(after(60, shell(30, 0, 0), runs(30, "make", 9*s, 9)), func(s *Sample) { s.Container = "d" })}, "", ""},
		{"an old ps: any job", two(procs(shell(30, 0, -1), runs(30, "perl x.pl", 0, -1)), procs(shell(30, 0, -1), runs(30, "perl x.pl", 0, -1))), workspace.BusyTerminal, "x"},
		{"an old ps: sleep", two(procs(shell(30, 0, -1), runs(30, "sleep 9", 0, -1)), procs(shell(30, 0, -1), runs(30, "sleep 9", 0, -1))), "", ""},
		{"an old ps: a viewer", two(procs(shell(30, 0, -1), runs(30, "less x", 0, -1)), procs(shell(30, 0, -1), runs(30, "less x", 0, -1))), "", ""},
		{"an old ps: a shell", two(procs(shell(20, 0, -1)), procs(shell(20, 0, -1))), "", ""},
		{"a job in the background that computes", two(procs(shell(20, 0, 0), Process{PID: 40, Group: 40, Session: 20, Foreground: 20, Args: "python3 train.py"}),
			procs(shell(20, 0, 0), Process{PID: 40, Group: 40, Session: 20, Foreground: 20, CPU: 50 * s, Args: "python3 train.py"})), workspace.BusyBackground, "train"},
		{"a daemon that computes", two(procs(Process{PID: 40, Group: 40, Session: 40, Foreground: -1, Args: "python3 -m ipykernel_launcher"}),
			procs(Process{PID: 40, Group: 40, Session: 40, Foreground: -1, CPU: 50 * s, Args: "python3 -m ipykernel_launcher"})), workspace.BusyBackground, "ipykernel_launcher"},
		{"a daemon that only writes", two(procs(Process{PID: 40, Group: 40, Session: 40, Foreground: -1, Args: "redis-server"}),
			procs(Process{PID: 40, Group: 40, Session: 40, Foreground: -1, CPU: s, Written: 9999, Args: "redis-server"})), "", ""},
		{"an application that its image's init has put into a session", [2]Sample{
			{At: began, Main: 10, Processes: []Process{{PID: 10, Session: 10, Foreground: -1, Args: "dumb-init code-server"}, {PID: 12, Parent: 10, Session: 12, Foreground: -1, Args: "node"}}},
			{At: began.Add(time.Minute), Main: 10, Processes: []Process{{PID: 10, Session: 10, Foreground: -1, Args: "dumb-init code-server"},
				{PID: 12, Parent: 10, Session: 12, Foreground: -1, CPU: 50 * s, Args: "node"}}},
		}, "", ""},
		{"a debugged program that prints", two(procs(debugged("node ./app.js", 0, 10)), procs(debugged("node ./app.js", 0, 30))), workspace.BusyBackground, "app"},
		{"a debugged program that computes", two(procs(debugged("/home/coder/out/a.out", 0, 0)), procs(debugged("/home/coder/out/a.out", 9*s, 0))), workspace.BusyBackground, "a.out"},
		{"a debugged program at a breakpoint", two(procs(debugged("node ./app.js", s, 10)), procs(debugged("node ./app.js", s, 10))), "", ""},
		{"a debugged program that has just begun", two(nil, procs(debugged("node ./app.js", s, 10))), "", ""},
		{"what a debugged program has started", two(procs(debugged("python3 ./app.py", 0, 0), Process{PID: 51, Parent: 50, Session: 10, Foreground: -1, Args: "/usr/bin/ffmpeg"}),
			procs(debugged("python3 ./app.py", 0, 0), Process{PID: 51, Parent: 50, Session: 10, Foreground: -1, CPU: 30 * s, Args: "/usr/bin/ffmpeg"})), workspace.BusyBackground, "ffmpeg"},
		{"a program of a debugger", two(procs(debugged("/x/extensions/cpp/netcoredbg", 0, 0), Process{PID: 51, Parent: 50, Session: 10, Foreground: -1, Args: "dotnet App.dll"}),
			procs(debugged("/x/extensions/cpp/netcoredbg", 0, 0), Process{PID: 51, Parent: 50, Session: 10, Foreground: -1, CPU: 30 * s, Args: "dotnet App.dll"})), workspace.BusyBackground, "dotnet"},
		{"a language server that indexes", two(procs(debugged("node /usr/lib/code-server/tsserver.js", 0, 0)), procs(debugged("node /usr/lib/code-server/tsserver.js", 50*s, 9000))), "", ""},
		{"an extension's helper", two(procs(debugged("/home/coder/.local/share/code-server/extensions/x/server", 0, 0)),
			procs(debugged("/home/coder/.local/share/code-server/extensions/x/server", 50*s, 9000))), "", ""},
		{"a helper that is found by its name", two(procs(debugged("gopls", 0, 0)), procs(debugged("gopls", 50*s, 9000))), "", ""},
		{"an application that is a person's own, with workers", [2]Sample{
			{At: began, Main: 10, Processes: []Process{{PID: 10, Session: 10, Foreground: -1, Args: "node /home/coder/server.js"},
				{PID: 12, Parent: 10, Session: 10, Foreground: -1, Args: "node /home/coder/server.js"}}},
			{At: began.Add(time.Minute), Main: 10, Processes: []Process{{PID: 10, Session: 10, Foreground: -1, Args: "node /home/coder/server.js"},
				{PID: 12, Parent: 10, Session: 10, Foreground: -1, CPU: 50 * s, Written: 9000, Args: "node /home/coder/server.js"}}},
		}, "", ""},
		{"a kernel", two(nil, nil), workspace.BusyKernel, "python3"},
		{"a kernel that is not known", two(nil, nil), workspace.BusyNoAnswer, ""},
		{"a young busy file", two(nil, nil), workspace.BusyFile, "nightly build"},
		{"an old busy file", two(nil, nil), "", ""},
		{"the image says so", two(nil, nil), workspace.BusyImage, ""},
		{"the image says not", two(nil, nil), "", ""},
		{"the image says nothing", two(nil, nil), workspace.BusyNoAnswer, ""},
	} {
		switch now := &c.looks[1]; c.name {
		case "a kernel":
			now.Kernel = "python3"
		case "a kernel that is not known":
			now.KernelsUnknown = true
		case "a young busy file":
			now.File = &File{Age: 9 * time.Minute, Line: "nightly\x1b[2J build\n"}
			c.detail = "nightly[2J build"
		case "an old busy file":
			now.File = &File{Age: 10 * time.Minute, Line: "x"}
		case "the image says so":
			now.Label = Busy
		case "the image says not":
			now.Label = Idle
		case "the image says nothing":
			now.Label = NoAnswer
		}
		got := DefaultSettings().Judge(&c.looks[0], c.looks[1], 10*time.Minute)
		known := c.looks[0].Container == c.looks[1].Container
		if want := (Verdict{Known: known, Reason: c.reason, Detail: c.detail}); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

// TestTheFirstLook can tell what needs no comparison, and nothing else.
func TestTheFirstLook(t *testing.T) {
	computes := after(0, shell(30, 0, 0), runs(30, "make", time.Hour, 1<<30))
	if got := DefaultSettings().Judge(nil, computes, time.Hour); got != (Verdict{}) {
		t.Errorf("a job at the first look: %+v, want nothing known", got)
	}
	agent := after(0, shell(30, 0, 0), runs(30, "claude --continue", 0, 0))
	if got := DefaultSettings().Judge(nil, agent, time.Hour); got.Reason != workspace.BusyCommand || !got.Known {
		t.Errorf("an agent at the first look: %+v", got)
	}
}

func TestNames(t *testing.T) {
	for args, want := range map[string][]string{
		"":                                 nil,
		"claude":                           {"claude"},
		"/usr/bin/claude --resume":         {"claude"},
		"-bash":                            {"bash"},
		"tmux: client":                     {"tmux"},
		"node /usr/bin/npm install":        {"node", "npm"},
		"node --no-warnings=x /opt/a/x.js": {"node", "x"},
		"node /usr/lib/node_modules/@anthropic-ai/claude-code/cli.js": {"node", "cli", "claude-code"},
		"node /usr/lib/node_modules/opencode/bin/run.mjs":             {"node", "run", "opencode"},
		"/usr/bin/python3.12 /home/coder/.local/bin/aider --model x":  {"python3.12", "aider"},
		"python -m aider":               {"python", "aider"},
		"python -m":                     {"python"},
		"bash -c claude --secret":       {"bash"},
		"env A=1 codex":                 {"env", "codex"},
		"git clone https://u:p@h/x.git": {"git"},
	} {
		if got := names(args); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func TestCleanBoundsWhatAWorkspaceSays(t *testing.T) {
	for in, want := range map[string]string{
		"nightly build\nsecond line":      "nightly build",
		"  \x1b]0;x\x07 a\u202eb\xff\r\n": "]0;x ab",
		strings.Repeat("가", maxDetail+1):  strings.Repeat("가", maxDetail-1) + "…",
		"\n\n":                            "",
		"<script>alert(1)</script>":       "<script>alert(1)</script>", // as text, which every page escapes
	} {
		if got := Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestSettingsAreValidatedTogether(t *testing.T) {
	if err := DefaultSettings().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Settings{Commands: []string{"/usr/bin/claude", "rm -rf", ""}}.Validate()
	for _, want := range []string{"work cpu", "work cap", `"/usr/bin/claude"`, `"rm -rf"`, `""`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not mentioned in: %v", want, err)
		}
	}
}
