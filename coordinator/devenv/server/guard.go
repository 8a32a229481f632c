package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardEnv carries a guard's [guardSpec]. A process that finds it in its
// environment is a guard and becomes nothing else: see init.
const guardEnv = "CODEHUB_DEVENV_GUARD"

// Guard is a child process of ours that runs one server and ends it when its
// owner is gone.
//
// The guard is this same program, started again. It holds the read end of a pipe
// whose write end only the owner has, so that the owner's end closes it, be it a
// normal exit, a panic, a test's -timeout or SIGKILL. The guard then stops the
// server and removes what was to be removed. If the guard itself is killed, the
// kernel ends the server (Pdeathsig, on Linux) and the next start sweeps the
// folder away ([NewScratch]).
//
// There is deliberately no goroutine in the owner: tests look for leaked ones.
type Guard struct {
	cmd     *exec.Cmd
	release *os.File
	logFile string

	mu   sync.Mutex
	done bool
	err  error
}

// guardSpec is what a guard is told.
type guardSpec struct {
	// Argv and Env are the server's command line and environment.
	Argv, Env []string
	// Stop is the signal for an orderly end; Grace is how long it may take before
	// SIGKILL.
	Stop  syscall.Signal
	Grace time.Duration
	// Unroot runs the server as somebody who is not root, because PostgreSQL
	// refuses to be.
	Unroot bool
	// Remove lists folders that go when the server has ended.
	Remove []string
	// Detach lists folders at and below which nothing stays mounted when the server has
	// ended in order: an engine started again after a kill leaves what it found there.
	Detach []string
	// Users, when set, is a lock file whose shared holders are the server's users:
	// the server ends when the last one is gone, not when the owner is.
	Users string
	// Bridge, when set, is a network interface that comes and goes with the server.
	Bridge string
	// Sudo runs the guard, and so the server, as root.
	Sudo bool
	// Dir is the server's working folder; empty means the root folder.
	Dir string
	// Log is the file that takes the server's output; empty means the owner's output.
	Log string
}

// init makes this process a guard when it was started as one. It runs before
// main, and before a test binary reads its flags.
func init() {
	text, ok := os.LookupEnv(guardEnv)
	if !ok {
		return
	}
	os.Exit(runGuard(text))
}

// startGuard starts a guard, which starts the server. It does not wait until the
// server answers. keep are files that must stay open as long as the guard lives:
// locks.
func startGuard(spec guardSpec, keep ...*os.File) (*Guard, error) {
	if spec.Grace == 0 {
		spec.Grace = 15 * time.Second
	}
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("describing %s: %w", spec.Argv[0], err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	in, release, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a guard's pipe: %w", err)
	}
	defer in.Close()
	stdout, stderr := os.Stdout, os.Stderr
	if spec.Log != "" {
		log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			release.Close()
			return nil, fmt.Errorf("opening the log of %s: %w", spec.Argv[0], err)
		}
		defer log.Close()
		stdout, stderr = log, log
	}
	// Not exec.CommandContext: a guard must outlive its owner, to clean up.
	cmd := exec.Command(self)
	cmd.Env = []string{guardEnv + "=" + string(text)}
	if spec.Sudo {
		cmd = exec.Command("sudo", "-n", guardEnv+"="+string(text), self)
	}
	cmd.Dir = "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
	cmd.ExtraFiles = keep
	// A process group of its own, so that Ctrl-C in the terminal reaches the owner
	// only, who decides about the order. Not a session of its own: sudo remembers a
	// password for the terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		release.Close()
		return nil, fmt.Errorf("starting the guard of %s: %w", spec.Argv[0], err)
	}
	return &Guard{cmd: cmd, release: release, logFile: spec.Log}, nil
}

// Program is a program to be run under a [Guard].
type Program struct {
	Argv, Env []string
	// Dir is the working folder; empty means the root folder.
	Dir string
	// Log is the file that takes the output; empty means the caller's output.
	Log string
	// Grace is how long an orderly end (SIGTERM) may take; 15 s if it is zero.
	Grace time.Duration
}

// Start runs a program that ends with this process, in order.
func Start(p Program) (*Guard, error) {
	return startGuard(guardSpec{Argv: p.Argv, Env: p.Env, Dir: p.Dir, Log: p.Log, Stop: syscall.SIGTERM, Grace: p.Grace})
}

// Exited tells, without blocking, whether the server has ended by itself.
func (g *Guard) Exited() bool { return g.exited() }

// Stop ends the server in an orderly way and returns when the guard has cleaned
// up. Called again it does nothing.
func (g *Guard) Stop() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release.Close()
	return g.wait()
}

// wait reaps the guard. The caller holds mu.
func (g *Guard) wait() error {
	if g.done {
		return g.err
	}
	g.done = true
	g.err = g.cmd.Wait()
	return g.err
}

// exited tells, without blocking, whether the guard has ended by itself, which it
// does only when its server has.
func (g *Guard) exited() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.done {
		return true
	}
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(g.cmd.Process.Pid, &status, syscall.WNOHANG, nil)
	if pid == 0 && err == nil {
		return false
	}
	g.done, g.err = true, errors.New("the server ended by itself")
	g.release.Close()
	return true
}

// await polls ready until it succeeds. It gives up when the server has ended or
// the time is over, stops the guard, and says what the server printed last.
func (g *Guard) await(name string, limit time.Duration, ready func() error) error {
	const step = 10 * time.Millisecond
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		ended := g.exited()
		if !ended && time.Now().Before(deadline) {
			time.Sleep(step)
			continue
		}
		// The log may be in a folder that the guard removes: read it first.
		tail := logTail(g.logFile)
		if !ended {
			_ = g.Stop()
			return fmt.Errorf("waiting %v for %s to answer: %w%s", limit, name, err, tail)
		}
		return fmt.Errorf("starting %s: it ended at once%s", name, tail)
	}
}

// logTail returns the last lines of a server's log, formatted to follow an error.
func logTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	lines = lines[max(0, len(lines)-8):]
	return "; it printed last:\n\t" + strings.Join(lines, "\n\t")
}

// runGuard is the guard's life. Its result is the process's exit code.
func runGuard(text string) int {
	var spec guardSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		fmt.Fprintln(os.Stderr, "guard: reading what to do:", err)
		return 2
	}
	// No signal but SIGTERM ends a guard early, and that in order. The others are
	// caught, not ignored: what is ignored would be ignored by the server's children,
	// too, down to the shells in containers.
	stop, others := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	signal.Notify(others, syscall.SIGINT, syscall.SIGHUP)

	// init runs on the main goroutine, which is locked to the main thread, which
	// lives as long as the process: Pdeathsig, which fires when the forking
	// *thread* ends, therefore means this process.
	if spec.Bridge != "" {
		if err := addBridge(spec.Bridge); err != nil {
			fmt.Fprintln(os.Stderr, "guard:", err)
			return 1
		}
	}
	cmd, err := startServer(spec)
	if err != nil {
		fmt.Fprintf(os.Stderr, "guard: starting %s: %v\n", spec.Argv[0], err)
		return 1
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()

	select {
	case <-ended:
		// The owner, if it lives, reads the log: leave the folder to the sweep of
		// the next start.
		fmt.Fprintf(os.Stderr, "guard: %s ended: %v\n", filepath.Base(spec.Argv[0]), cmd.ProcessState)
		if spec.Bridge != "" {
			_ = removeBridge(spec.Bridge)
		}
		return 1
	case <-stop:
	case <-unwanted(spec):
	}
	_ = cmd.Process.Signal(spec.Stop)
	select {
	case <-ended:
	case <-time.After(spec.Grace):
		_ = cmd.Process.Kill()
		<-ended
	}
	code := 0
	if spec.Bridge != "" {
		if err := removeBridge(spec.Bridge); err != nil {
			fmt.Fprintln(os.Stderr, "guard:", err)
			code = 1
		}
	}
	for _, dir := range spec.Detach {
		detachMounts(dir)
	}
	for _, dir := range spec.Remove {
		detachMounts(dir)
		if err := os.RemoveAll(dir); err != nil {
			fmt.Fprintln(os.Stderr, "guard:", err)
			code = 1
		}
	}
	return code
}

// startServer starts the server itself.
func startServer(spec guardSpec) (*exec.Cmd, error) {
	build := func(attr *syscall.SysProcAttr) *exec.Cmd {
		cmd := exec.Command(spec.Argv[0], spec.Argv[1:]...)
		cmd.Env, cmd.Dir = spec.Env, cmp.Or(spec.Dir, "/")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		setParentDeathSignal(attr, spec.Stop)
		cmd.SysProcAttr = attr
		return cmd
	}
	if !spec.Unroot {
		cmd := build(&syscall.SysProcAttr{})
		return cmd, cmd.Start()
	}
	attr, err := unrootAttr()
	if err != nil {
		return nil, err
	}
	cmd := build(attr)
	return cmd, cmd.Start()
}

// unwanted is closed when nobody needs the server any more.
func unwanted(spec guardSpec) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if spec.Users == "" {
			_, _ = io.Copy(io.Discard, os.Stdin)
			return
		}
		f, err := os.OpenFile(spec.Users, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			fmt.Fprintln(os.Stderr, "guard: opening the lock of the users:", err)
			return
		}
		// Held until this process has ended, so that a new user starts its own server
		// only after this one has stopped. The file is never closed here.
		for {
			err := unix.Flock(int(f.Fd()), unix.LOCK_EX)
			if !errors.Is(err, syscall.EINTR) {
				return
			}
		}
	}()
	return gone
}
