package server

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// startLimit is how long a program may take to answer. It is long because test
	// machines are busy; a start takes well under a second otherwise.
	startLimit = 3 * time.Minute
	// defaultGrace is how long an orderly end may take.
	defaultGrace = 15 * time.Second
	pollInterval = 10 * time.Millisecond
)

// Program says what to run and what belongs to it.
type Program struct {
	// Name is the program's name in messages.
	Name      string
	Argv, Env []string
	// Dir is the working folder; empty means the root folder.
	Dir string
	// Log is the file that takes the output; empty means the caller's output.
	Log string
	// Stop is the signal for an orderly end, SIGTERM if zero; Group sends it to the program's children as well. SIGKILL
	// follows after Grace, 15 s if zero.
	Stop  syscall.Signal
	Group bool
	Grace time.Duration
	// Lock is a file that is locked while the program or a child of it lives. Start waits for the lock, so that two
	// programs never use the same files.
	Lock string
	// Token is written to the lock file. Until the token is there, a predecessor that is still ending may answer
	// instead of the program. Start chooses it.
	Token string
	// Stale lists files that a killed predecessor may have left. They are removed when
	// the lock is held.
	Stale []string
	// Folders are created before the program starts, and removed after it has ended. Only the program's user can enter
	// them.
	Folders []string
	// Credential is the user that the program runs as, with the capabilities Caps; nil means the present user. Another
	// user needs Root.
	Credential *syscall.Credential
	Caps       []uintptr
	// Root runs the supervisor as root, with sudo if need be.
	Root bool
	// If Contain is set, every process that the program has started ends together with the program, and its mounts are
	// undone. It runs in a process and mount namespace of its own. Network adds a network namespace. Both need Root,
	// and Linux.
	Contain, Network bool
	// Before and After are shell commands that the supervisor runs around the program.
	Before, After string
	// Ready returns nil when the program serves. If Ready itself is nil, there is nothing to wait for.
	Ready func() error `json:"-"`
}

// Process is a running [Program]. Its supervisor is this same executable, started again:
// see supervise.
//
// There is deliberately no goroutine in the owner: tests look for leaked ones.
type Process struct {
	program Program
	cmd     *exec.Cmd
	// owner is the write end of a pipe that the supervisor reads. The pipe closes when this process ends, whether by a
	// normal exit, a panic, a test's -timeout or SIGKILL.
	owner *os.File

	mu     sync.Mutex
	ended  bool
	status syscall.WaitStatus
	err    error
}

// Start starts a program that ends with this process, and waits until it is ready.
func Start(p Program) (*Process, error) {
	p.Token = rand.Text()
	process, err := start(p)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.Name, err)
	}
	if p.Ready == nil {
		return process, nil
	}
	deadline := time.Now().Add(startLimit)
	for {
		err := p.ready()
		if err == nil {
			return process, nil
		}
		ended := process.Exited()
		if !ended && time.Now().Before(deadline) {
			time.Sleep(pollInterval)
			continue
		}
		tail := logTail(p.Log) // before its folder goes
		_ = process.Stop()
		if ended {
			return nil, fmt.Errorf("starting %s: it ended at once%s", p.Name, tail)
		}
		return nil, fmt.Errorf("waiting %v for %s to answer: %w%s", startLimit, p.Name, err, tail)
	}
}

// ready returns nil when this program, and not its predecessor, serves.
func (p Program) ready() error {
	if token, err := os.ReadFile(p.Lock); p.Lock != "" && (err != nil || string(token) != p.Token) {
		return errors.New("its predecessor has not ended")
	}
	return p.Ready()
}

// start starts the supervisor and tells it what to run.
func start(p Program) (*Process, error) {
	if p.Stop == 0 {
		p.Stop = syscall.SIGTERM
	}
	if p.Grace == 0 {
		p.Grace = defaultGrace
	}
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var argv []string
	if p.Root && os.Getuid() != 0 {
		argv = append(argv, "sudo", "-n")
	}
	argv = append(argv, "env", supervisorEnv+"=1")
	if p.Contain {
		argv = append(argv, "unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
		if p.Network {
			argv = append(argv, "--net")
		}
	}
	stdout, stderr := os.Stdout, os.Stderr
	if p.Log != "" {
		log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		stdout, stderr = log, log
	}
	in, owner, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	argv = append(argv, self)
	// Not exec.CommandContext: a supervisor must outlive its owner, to clean up.
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir = []string{"PATH=" + systemPath}, "/"
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, stdout, stderr
	// Use a separate process group: Ctrl-C in the terminal then reaches only the owner, which decides in which order
	// programs end. Do not use a separate session: sudo remembers a password per terminal.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		owner.Close()
		return nil, err
	}
	process := &Process{program: p, cmd: cmd, owner: owner}
	if _, err := owner.Write(text); err != nil {
		return nil, errors.Join(err, process.Stop())
	}
	return process, nil
}

// Exited reports, without blocking, whether the program has ended by itself or has been stopped.
func (p *Process) Exited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reap(syscall.WNOHANG)
}

// Stop ends the program in an orderly way and returns when its supervisor has cleaned
// up. Called again it does nothing. The error reports that the program had already ended by itself, or names what could
// not be cleaned up.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reap(syscall.WNOHANG) {
		for _, dir := range p.program.Folders {
			_ = os.RemoveAll(dir) // kept by the supervisor for the log that may be in it
		}
		return p.err
	}
	p.owner.Close()
	p.reap(0)
	if p.err = nil; p.status != 0 {
		p.err = fmt.Errorf("the supervisor of %s ended with %s", p.program.Name, describe(p.status))
	}
	return p.err
}

// ExitCode returns the code of a program that has ended by itself.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status.ExitStatus()
}

// reap collects the supervisor, which ends only after its program. The caller holds mu.
func (p *Process) reap(flags int) bool {
	for !p.ended {
		pid, err := syscall.Wait4(p.cmd.Process.Pid, &p.status, flags, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if pid == 0 && err == nil {
			return false
		}
		p.ended, p.err = true, fmt.Errorf("%s ended by itself", p.program.Name)
		p.owner.Close()
		_ = p.cmd.Process.Release()
	}
	return true
}

func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "signal " + s.Signal().String()
	}
	return fmt.Sprintf("exit code %d", s.ExitStatus())
}

// logTail returns the last lines of a log, formatted to follow an error.
func logTail(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	lines = lines[max(0, len(lines)-8):]
	return "; it printed last:\n\t" + strings.Join(lines, "\n\t")
}
