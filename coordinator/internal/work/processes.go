package work

import (
	"path"
	"slices"
	"strings"
	"time"
)

// inits start the application and reap its orphans. Some of them start it in a new session.
var inits = []string{"docker-init", "tini", "dumb-init", "catatonit"}

// launchers are programs that start the application from a script or a list and wait for it, as shells do.
var launchers = []string{"npm", "npx", "npm-cli", "npx-cli", "yarn", "yarnpkg", "pnpm", "pnpx", "bunx", "corepack", "su", "sudo", "gosu", "su-exec",
	"setpriv", "runuser", "env", "nodemon", "concurrently", "pm2", "pm2-runtime", "supervisord", "foreman", "honcho",
	"s6-svscan", "s6-supervise", "runsvdir", "runsv", "uv", "poetry", "pipenv", "bundle"}

// shells run the commands that start the application.
var shells = []string{"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox"}

// launches reports whether the program with that command line only starts others.
func launches(args string) bool {
	program, _, _ := strings.Cut(args, " ")
	return slices.Contains(shells, base(program)) ||
		slices.ContainsFunc(names(args), func(name string) bool { return slices.Contains(launchers, name) })
}

// application returns the processes of the application. The first is the main process. If a process is an init, a shell
// or another launcher, its children belong to the application, too. All processes that share a session with one of them
// belong to the application.
func (s Sample) application() (main []Process) {
	i := slices.IndexFunc(s.Processes, func(p Process) bool { return p.PID == s.Main })
	if i < 0 {
		return nil
	}
	main = append(main, s.Processes[i])
	for n := 0; n < len(main); n++ { // it grows
		switch parent := main[n]; {
		case slices.Contains(inits, name(parent.Args)):
			main = append(main, s.children(parent, false)...)
		case launches(parent.Args):
			main = append(main, s.children(parent, true)...)
		default:
			main = append(main, s.launched(parent)...)
		}
	}
	return main
}

// launched returns the process that an unlisted launcher has started. Such a launcher has only one child, which is in
// the launcher's session. A program that listens is not a launcher but the application itself, and its child may be a
// program that a person debugs. If it is unknown which programs listen, launched returns nothing.
func (s Sample) launched(parent Process) []Process {
	if s.Inside == nil || len(s.Inside.Listening) == 0 || s.Inside.Listening[comparableArgs(parent.Args)] {
		return nil
	}
	found := s.children(parent, true)
	if len(found) != 1 || found[0].Session != parent.Session {
		return nil
	}
	return found
}

// children returns the first process that the parent has started. If all is set, it returns instead all children that
// share the parent's session, if there are any. Processes that a terminal has left behind do not share it.
func (s Sample) children(parent Process, all bool) (found []Process) {
	var first []Process
	for _, p := range s.Processes {
		if p.Parent != parent.PID || p.PID == parent.PID {
			continue
		}
		if all && p.Session == parent.Session {
			found = append(found, p)
		}
		if first == nil || p.PID < first[0].PID {
			first = []Process{p}
		}
	}
	if len(found) > 0 {
		return found
	}
	return first
}

// job is the foreground job of a terminal, including the session's leader, which is the shell.
type job struct {
	members []Process
	group   int
	shell   bool // only the shell itself
}

// foreground returns the foreground job of each terminal, in the order of the processes.
func (s Sample) foreground() []job {
	var order []int
	jobs := make(map[int]*job) // by session
	for _, p := range s.Processes {
		if p.Foreground < 0 || p.Group != p.Foreground && p.PID != p.Session {
			continue
		}
		j := jobs[p.Session]
		if j == nil {
			j = &job{shell: true}
			jobs[p.Session] = j
			order = append(order, p.Session)
		}
		j.members, j.group = append(j.members, p), p.Foreground
		j.shell = j.shell && p.Group == p.Session
	}
	out := make([]job, 0, len(order))
	for _, session := range order {
		out = append(out, *jobs[session])
	}
	return out
}

// name returns the name of the job's first command. A loop that is sleeping now has the shell's name.
func (j job) name() string {
	var first, shell string
	for _, p := range j.members {
		switch {
		case p.PID == p.Session && p.PID != j.group:
			shell = name(p.Args)
		case p.PID == j.group:
			first = name(p.Args)
		case first == "":
			first = name(p.Args)
		}
	}
	if first == "sleep" && shell != "" {
		return shell
	}
	return first
}

// waits reports whether the job is only a shell that waits for a command, or sleeps.
func (j job) waits() bool {
	return j.shell || !slices.ContainsFunc(j.members, func(p Process) bool {
		return p.Group == j.group && name(p.Args) != "sleep"
	})
}

// used holds the resources used since the previous look. If written is unknown, it is -1 and writes is 0.
type used struct {
	cpu             time.Duration
	written, writes int64
}

// since returns how much CPU time the job's members have used, and how much they have written, since the previous look.
// A new member counts from zero. The figures of a process that has ended are contained in its parent's.
func (j job) since(before *Sample) (u used) {
	for _, p := range j.members {
		was := before.find(p)
		u.cpu += p.CPU - was.CPU
		u.writes += p.Writes - was.Writes
		if p.Written < 0 {
			u.written = -1
		} else if u.written >= 0 {
			u.written += p.Written - max(was.Written, 0)
		}
	}
	return u
}

// find returns the process as it was before. It returns a zero process if the process is new, or if the id belonged to
// a different process at the previous look. In that case the figures have become smaller.
func (s Sample) find(p Process) Process {
	i := slices.IndexFunc(s.Processes, func(was Process) bool { return was.PID == p.PID && was.Session == p.Session })
	if i < 0 || s.Processes[i].CPU > p.CPU || s.Processes[i].Written > p.Written {
		return Process{}
	}
	return s.Processes[i]
}

// busiest names the process that has used the most CPU time.
func busiest(before *Sample, members []Process) string {
	most, which := time.Duration(-1), ""
	for _, p := range members {
		if used := p.CPU - before.find(p).CPU; used > most {
			most, which = used, name(p.Args)
		}
	}
	return which
}

// viewers redraw the screen without doing anything, or only wait for keys. They count when they compute.
var viewers = []string{
	"top", "htop", "btop", "atop", "glances", "nvtop", "nmon", "iotop", "iftop", "watch", "less", "more", "most", "man",
	"vi", "vim", "vim.basic", "vim.tiny", "view", "nvim", "nano", "emacs", "micro", "hx", "kak", "joe",
	"tmux", "screen", "zellij", "mc", "ranger", "ncdu", "tig", "lazygit", "k9s",
}

func viewer(name string) bool { return slices.Contains(viewers, name) }

// interpreters run a script that people know by its own name.
var interpreters = []string{"node", "nodejs", "bun", "deno", "npx", "python", "pypy", "ruby", "perl", "uv", "uvx",
	"env", "sh", "bash", "dash", "zsh"}

func interpreter(name string) bool {
	return slices.Contains(interpreters, strings.TrimRight(name, "0123456789."))
}

// name returns the name by which people know the program with that command line: the name of the script if an
// interpreter runs one. It omits arguments, which may contain secrets.
func name(args string) string {
	if all := names(args); len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// names returns the possible names of the program with that command line, in this order: the program, its script, and
// the script's package. A program that changes its command line often puts its name there.
func names(args string) []string {
	fields := strings.Fields(args)
	if len(fields) == 0 {
		return nil
	}
	program := base(fields[0])
	out := []string{program}
	if !interpreter(program) {
		return out
	}
	file, module := script(fields[1:])
	if runs := file + module; runs != "" {
		out = append(out, base(runs))
	}
	if _, in, ok := strings.Cut(file, "/node_modules/"); ok {
		for _, part := range strings.SplitN(in, "/", 3) {
			if !strings.HasPrefix(part, "@") {
				return append(out, part)
			}
		}
	}
	return out
}

// script returns what an interpreter with these arguments runs: a file, a module, or neither.
func script(args []string) (file, module string) {
	for i, arg := range args {
		switch {
		case arg == "-m" && i+1 < len(args):
			return "", args[i+1]
		case arg == "-c", arg == "-e":
			return "", "" // what follows is no file
		case strings.HasPrefix(arg, "-"), strings.Contains(arg, "="):
			continue
		}
		return arg, ""
	}
	return "", ""
}

// base returns the last part of a path without the extension of a script, and without the dash of a login shell.
func base(arg string) string {
	b := strings.TrimPrefix(path.Base(arg), "-")
	for _, ext := range []string{".js", ".mjs", ".cjs", ".py", ".rb", ".pl", ".sh"} {
		if cut, ok := strings.CutSuffix(b, ext); ok && cut != "" {
			return cut
		}
	}
	return strings.TrimSuffix(b, ":") // as in "tmux: client"
}
