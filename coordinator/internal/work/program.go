package work

import (
	"path"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
)

// An application starts helpers of its own, such as language servers, which never count. For people it also starts the
// programs that they debug, which do count. Both are in its session and have no terminal. A debugged program is a file
// of the person's own, or was started by a debugger.

// debuggers are programs that run only while a person debugs.
var debuggers = []string{
	"dlv", "gdb", "gdbserver", "lldb", "lldb-dap", "lldb-server", "lldb-vscode", "codelldb", "netcoredbg",
	"vsdbg", "rdbg",
}

// debugs reports whether the program with that command line is a debugger, or was started so that its parent process
// can debug it.
func debugs(args string) bool {
	return slices.ContainsFunc(names(args), func(name string) bool { return slices.Contains(debuggers, name) }) ||
		strings.Contains(args, "/debugpy") || strings.Contains(args, "-agentlib:jdwp")
}

// programs returns the programs that the application has started for people, with all their descendants.
func (s Sample) programs() (all []Process) {
	application := s.application()
	own := make(map[int]bool)
	for before := -1; before != len(own); { // processes are in no order
		before = len(own)
		for _, p := range s.Processes {
			if inSessionOf(application, p) && p.Foreground < 0 && !slices.Contains(application, p) &&
				(own[p.Parent] || debugs(p.Args) || isOwn(file(p.Args)) && !isMain(application, file(p.Args))) {
				own[p.PID] = true
			}
		}
	}
	for _, p := range s.Processes {
		if own[p.PID] {
			all = append(all, p)
		}
	}
	return all
}

// inSessionOf reports whether the process belongs to the application.
func inSessionOf(application []Process, p Process) bool {
	return slices.ContainsFunc(application, func(a Process) bool { return a.Session == p.Session })
}

// isMain reports whether the application itself runs that file, as its workers do.
func isMain(application []Process, name string) bool {
	return slices.ContainsFunc(application, func(a Process) bool { return file(a.Args) == name })
}

// isOwn reports whether a file is one that people write, judging by its path in a command line: it is in the home
// folder or relative to a folder, and not in a folder that is hidden or filled by a package manager.
func isOwn(file string) bool {
	in, isBelow := strings.CutPrefix(file, workspace.Home+"/")
	if file == "" || path.IsAbs(file) && !isBelow {
		return false
	}
	for folder := range strings.SplitSeq(path.Dir(path.Clean(in)), "/") {
		if strings.HasPrefix(folder, ".") && strings.Trim(folder, ".") != "" || folder == "node_modules" ||
			folder == "site-packages" {
			return false
		}
	}
	return !strings.HasPrefix(in, "go/bin/")
}

// file returns the path of the program with that command line, or of the script if an interpreter runs one. It is empty
// for a program that is found by its name.
func file(args string) string {
	fields := strings.Fields(args)
	if len(fields) == 0 {
		return ""
	}
	if interpreter(base(fields[0])) {
		script, _ := script(fields[1:])
		return script
	}
	if strings.Contains(fields[0], "/") {
		return fields[0]
	}
	return ""
}
