package work

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

var began = time.Unix(1_000_000, 0)

// after returns a look that many seconds later. It shows an application, a shell on a terminal, and the given
// processes.
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

// shell returns a shell on a terminal with that group in the foreground; runs returns one of its processes.
func shell(foreground int, used time.Duration, written int64) Process {
	return Process{PID: 20, Parent: 11, Group: 20, Session: 20, Foreground: foreground, CPU: used, Written: written, Args: "-bash"}
}

// debugged returns a process without a terminal that the application has started.
func debugged(args string, used time.Duration, written int64) Process {
	return Process{PID: 50, Parent: 11, Group: 10, Session: 10, Foreground: -1, CPU: used, Written: written, Args: args}
}

func runs(pid int, args string, used time.Duration, written int64) Process {
	return Process{PID: pid, Parent: 20, Group: 30, Session: 20, Foreground: 30, CPU: used, Written: written, Args: args}
}

func with(s Sample, change func(*Sample)) Sample { change(&s); return s }

// TestJudge lists cases that are work and cases that are not. The looks are a minute apart.
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

// TestWaitingAndAnsweringAreNoWork: a program that listens and answers does not count as working, nor does a program
// that only wakes itself.
func TestWaitingAndAnsweringAreNoWork(t *testing.T) {
	const s = time.Second
	inside := func(printed int64, listening ...string) *Inside {
		in := &Inside{Listening: map[string]bool{}, Serving: map[string]bool{}, Printed: map[int]int64{2: printed}}
		for _, args := range listening {
			in.Listening[args], in.Serving[args] = true, true
		}
		return in
	}
	inspected := inside(7, "node ./server.js", "node /usr/lib/code-server")
	delete(inspected.Serving, "node ./server.js")
	server := func(written, writes int64, used time.Duration) Process {
		return Process{PID: 30, Parent: 20, Group: 30, Session: 20, Foreground: 30, Terminal: 3, CPU: used, Written: written, Writes: writes, Args: "node server.js"}
	}
	noTerminal := func(written, writes int64) Process {
		p := debugged("node ./server.js", 0, written)
		p.Writes = writes
		return p
	}
	for _, c := range []struct {
		name        string
		before, now Process
		was, is     *Inside
		reason      string
	}{
		{"a program that wakes itself", server(0, 0, 0), server(80, 10, s), inside(7), inside(7), ""},
		{"one that writes to a file", server(0, 0, 0), server(81, 10, 0), inside(7), inside(7), workspace.BusyTerminal},
		{"one that prints as much as others wake themselves with", server(0, 0, 0), server(80, 10, 0), inside(7), inside(9), workspace.BusyTerminal},
		{"a server that answers", server(0, 0, 0), server(9000, 10, s), inside(7, "node server.js"), inside(7, "node server.js"), ""},
		{"a server that prints", server(0, 0, 0), server(9000, 10, 0), inside(7, "node server.js"), inside(9, "node server.js"), workspace.BusyTerminal},
		{"a server that computes", server(0, 0, 0), server(0, 0, 9*s), inside(7, "node server.js"), inside(7, "node server.js"), workspace.BusyTerminal},
		{"a server of which that is not known", server(0, 0, 0), server(80, 10, 0), nil, inside(7, "node server.js"), workspace.BusyTerminal},
		{"a debugged server that waits", noTerminal(0, 0), noTerminal(80, 10), nil, nil, ""},
		{"a debugged server that answers", noTerminal(0, 0), noTerminal(9000, 10), inside(7, "node ./server.js", "node /usr/lib/code-server"),
			inside(7, "node ./server.js", "node /usr/lib/code-server"), ""},
		{"a debugged program that writes, on whose port is the debugger", noTerminal(0, 0), noTerminal(9000, 10), inspected, inspected, workspace.BusyBackground},
		{"one that waits", noTerminal(0, 0), noTerminal(80, 10), inspected, inspected, ""},
		{"a debugged program that writes", noTerminal(0, 0), noTerminal(9000, 10), inside(7), inside(7), workspace.BusyBackground},
	} {
		before, now := after(0, shell(30, 0, 0), c.before), after(60, shell(30, 0, 0), c.now)
		before.Inside, now.Inside = c.was, c.is
		for i := range before.Processes {
			if p := &before.Processes[i]; p.PID == 20 {
				p.Terminal, now.Processes[i].Terminal = 3, 3
			}
		}
		if got := DefaultSettings().Judge(&before, now, 10*time.Minute); got.Reason != c.reason || !got.Known {
			t.Errorf("%s: %+v, want %q", c.name, got, c.reason)
		}
	}
}

// TestWhatLaunchesTheApplicationIsNotIt: a shell, npm and an init lead to the application.
func TestWhatLaunchesTheApplicationIsNotIt(t *testing.T) {
	for name, chain := range map[string][]string{
		"a shell":             {"sh -c node server.js; exit 1", "node server.js"},
		"a script":            {"/bin/bash /entrypoint.sh", "node server.js"},
		"npm":                 {"npm start", "sh -c node server.js", "node server.js"},
		"npm by its file":     {"node /usr/local/bin/npm start", "sh -c node server.js", "node server.js"},
		"an init and npm":     {"/sbin/docker-init -- tini -- npm run dev", "tini -- npm run dev", "npm run dev", "sh -c nodemon server.js", "node /app/node_modules/.bin/nodemon server.js", "node server.js"},
		"yarn behind a shell": {"sh -c yarn start", "node /usr/share/yarn/bin/yarn.js start", "/bin/sh -c node ./server.js", "node ./server.js"},
		"make":                {"make run", "node server.js"},
		"bun":                 {"bun run start", "node ./server.js"},
		"yarn in the project": {"node .yarn/releases/yarn-4.1.0.cjs start", "node ./server.js"},
		"just":                {"just dev", "sh -c tsx watch server.ts", "node /app/node_modules/.bin/tsx watch server.ts", "node --import tsx server.ts"},
		"go":                  {"go run .", "./main"},
	} {
		look := func(at time.Time, used time.Duration, written int64) Sample {
			s := Sample{At: at, Container: "c", Main: 10, Terminals: true, Inside: &Inside{Listening: map[string]bool{"worker": true}}}
			for i, args := range chain {
				s.Processes = append(s.Processes, Process{PID: 10 + i, Parent: 9 + i, Group: 10, Session: 10, Foreground: -1, Args: args})
			}
			last := &s.Processes[len(chain)-1]
			last.CPU, last.Written, last.Writes = used, written, written/100
			// Add a process of the same application, and a process that a terminal has left behind.
			s.Processes = append(s.Processes,
				Process{PID: 40, Parent: last.PID, Group: 10, Session: 10, Foreground: -1, Written: written, Args: last.Args},
				Process{PID: 50, Parent: 10, Group: 50, Session: 50, Foreground: -1, CPU: 0, Args: "python3 train.py"})
			return s
		}
		before, now := look(began, 0, 0), look(began.Add(time.Minute), 50*time.Second, 9000)
		if got := DefaultSettings().Judge(&before, now, time.Hour); got.Reason != "" {
			t.Errorf("%s: %+v", name, got)
		}
		now.Processes[len(now.Processes)-1].CPU = 50 * time.Second
		if got := DefaultSettings().Judge(&before, now, time.Hour); got.Reason != workspace.BusyBackground || got.Detail != "train" {
			t.Errorf("%s: what a terminal has left behind: %+v", name, got)
		}
	}
}

// TestWhatAnApplicationStartsForPeopleIsNotIt: a program that the application starts for a person does not count as the
// application, even if it is the application's only child. The program that listens is the application.
func TestWhatAnApplicationStartsForPeopleIsNotIt(t *testing.T) {
	editor := []string{"node /usr/lib/code-server", "node /usr/lib/code-server/out/node/entry", "node /usr/lib/code-server/bootstrap-fork --type=extensionHost"}
	for name, c := range map[string]struct {
		chain     []string
		listening map[string]bool // nil: there was no look inside
	}{
		"code-server":                           {editor, map[string]bool{editor[1]: true}},
		"code-server, of which nothing is seen": {editor, map[string]bool{}},
		"code-server without a look inside":     {editor, nil},
		"an application that has one child":     {[]string{"theia /home/coder"}, map[string]bool{"theia /home/coder": true}},
	} {
		look := func(at time.Time, used time.Duration) Sample {
			s := Sample{At: at, Container: "c", Main: 10}
			if c.listening != nil {
				s.Inside = &Inside{Listening: c.listening}
			}
			for i, args := range append(slices.Clone(c.chain), "node ./app.js") {
				s.Processes = append(s.Processes, Process{PID: 10 + i, Parent: 9 + i, Group: 10, Session: 10, Foreground: -1, Args: args})
			}
			s.Processes[len(c.chain)].CPU = used
			return s
		}
		before, now := look(began, 0), look(began.Add(time.Minute), 50*time.Second)
		if got := DefaultSettings().Judge(&before, now, time.Hour); got.Reason != workspace.BusyBackground || got.Detail != "app" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestATerminalIsNoApplication: a terminal's shell does not count as the application, even if it is the main process's
// only child.
func TestATerminalIsNoApplication(t *testing.T) {
	look := func(at time.Time, used time.Duration) Sample {
		s := Sample{At: at, Container: "c", Main: 11, Terminals: true, Inside: &Inside{Listening: map[string]bool{"worker": true}}}
		s.Processes = []Process{{PID: 11, Group: 11, Session: 11, Foreground: -1, Args: "terminals"}, shell(20, 0, 0),
			{PID: 40, Parent: 20, Group: 40, Session: 20, Foreground: 20, CPU: used, Args: "python3 train.py"}}
		return s
	}
	before, now := look(began, 0), look(began.Add(time.Minute), 50*time.Second)
	if got := DefaultSettings().Judge(&before, now, time.Hour); got.Reason != workspace.BusyBackground || got.Detail != "train" {
		t.Errorf("%+v", got)
	}
}

func TestParseInside(t *testing.T) {
	got := ParseInside([]byte(`==> inside <==
/dev/pts/0 1764288000
/dev/pts/12 5
==> /proc/net/tcp <==
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 77 1
   1: 00000000:0BB9 020011AC:0001 01 00000000:00000000 00:00000000 00000000  1000        0 78 1

==> /proc/net/tcp6 <==
  sl  local_address                         remote_address                        st tx_queue
/proc/5/fd:
total 0
lrwx------ 1 coder coder 64 Nov 27 10:00 3 -> socket:[77]

/proc/6/fd:
lrwx------ 1 coder coder 64 Nov 27 10:00 3 -> socket:[78]
==> /proc/5/cmdline <==
` + "node\x00server.js\x00" + `
==> /proc/6/cmdline <==
` + "sh\x00-c\x00x" + `
`))
	if len(got.Listening) != 1 || !got.Listening["node server.js"] || len(got.Printed) != 2 || got.Printed[0] != 1764288000 || got.Printed[12] != 5 {
		t.Errorf("%+v", got)
	}
}

// TestThePortOfADebugger: a program serves if it listens on more than one port of the loopback address, or on another
// address.
func TestThePortOfADebugger(t *testing.T) {
	const v6 = "00000000000000000000000001000000"
	for name, c := range map[string]struct {
		v4, v6  string
		serving bool
	}{
		"the debugger's":        {v4: "0: 0100007F:2406 0:0 0A 0:0 0:0 0 1000 0 77 1"},
		"the debugger's, IPv6":  {v6: "0: " + v6 + ":2406 0:0 0A 0:0 0:0 0 1000 0 77 1"},
		"one for everybody":     {"0: 00000000:2406 0:0 0A 0:0 0:0 0 1000 0 77 1", "", true},
		"another one beside it": {"0: 0100007F:2406 0:0 0A 0:0 0:0 0 1000 0 77 1\n1: 0100007F:0BB8 0:0 0A 0:0 0:0 0 1000 0 78 1", "", true},
		"a loopback connection": {v4: "0: 0100007F:2406 0:0 0A 0:0 0:0 0 1000 0 77 1\n1: 0100007F:2406 0:0 01 0:0 0:0 0 1000 0 78 1"},
	} {
		in := ParseInside([]byte("==> inside <==\n==> /proc/net/tcp <==\n" + c.v4 + "\n\n==> /proc/net/tcp6 <==\n" + c.v6 +
			"\n/proc/5/fd:\nlrwx------ 1 u u 64 Nov 27 10:00 3 -> socket:[77]\nlrwx------ 1 u u 64 Nov 27 10:00 4 -> socket:[77]\n" +
			"lrwx------ 1 u u 64 Nov 27 10:00 5 -> socket:[78]\n==> /proc/5/cmdline <==\nnode\x00app.js\x00\n"))
		if !in.Listening["node app.js"] || in.Serving["node app.js"] != c.serving {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// TestAServerIsKnownByItsCommandLine: the tools that show processes change some command lines, and the container shows
// only the beginning of a long one.
func TestAServerIsKnownByItsCommandLine(t *testing.T) {
	long := "java -cp " + strings.Repeat("/srv/lib/a.jar:", 600) + " Main"
	for name, c := range map[string]struct{ raw, shown string }{
		"a long one":                     {strings.ReplaceAll(long, " ", "\x00")[:8192], long},
		"blanks in an argument":          {"node\x00-e\x00a;  b\x00", "node -e a; b"},
		"an empty argument":              {"serve\x00\x00-p\x001\x00", "serve -p 1"},
		"several lines":                  {"python3\x00-c\x00import http\n\nserve()\x00", "python3 -c import http??serve()"},
		"several lines, shown as blanks": {"python3\x00-c\x00import http\n\nserve()\x00", "python3 -c import http serve()"},
		"an empty line first":            {"python3\x00-c\x00\nserve()\x00", "python3 -c ?serve()"},
		"a path in Korean":               {"node\x00/srv/\uc11c\ubc84.js\x00", "node /srv/??????.js"},
		"a path in Korean that is shown": {"node\x00/srv/\uc11c\ubc84.js\x00", "node /srv/\uc11c\ubc84.js"},
		"a byte that is no letter":       {"node\x00/srv/\xff.js\x00", "node /srv/?.js"},
	} {
		in := ParseInside([]byte("==> inside <==\n==> /proc/net/tcp <==\n0: 0:1 0:0 0A 0:0 0:0 0 1000 0 77 1\n/proc/5/fd:\nlrwx------ 1 u u 64 Nov 27 10:00 3 -> socket:[77]\n" +
			"==> /proc/5/cmdline <==\n" + c.raw + "\n==> /proc/6/cmdline <==\nsleep\x009\x00"))
		before, now := after(0, shell(30, 0, 0), runs(30, c.shown, 0, 0)), after(60, shell(30, 0, 0), runs(30, c.shown, 0, 9000))
		before.Inside, now.Inside = in, in
		if got := DefaultSettings().Judge(&before, now, time.Hour); got.Reason != "" {
			t.Errorf("%s: %+v", name, got)
		}
		if len(in.Listening) != 1 {
			t.Errorf("%s: these listen: %v", name, in.Listening)
		}
	}
}

// TestTheFirstLook: the first look only reveals what needs no comparison.
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
	for _, want := range []string{"work cap", `"/usr/bin/claude"`, `"rm -rf"`, `""`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not mentioned in: %v", want, err)
		}
	}
}
