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
	"syscall"
	"time"
)

// supervisorEnv marks a process as a supervisor. It reads its [Program] from stdin.
const supervisorEnv = "CODEHUB_DEVENV_SUPERVISOR"

// init makes this process a supervisor when it was started as one. It runs before main,
// and before a test binary reads its flags.
func init() {
	if os.Getenv(supervisorEnv) != "" {
		os.Exit(supervise())
	}
}

// supervise runs one program until its owner is gone, and then ends it in an orderly way. If the supervisor is killed,
// the kernel ends the program: by Pdeathsig, or as process 1 of a namespace. The result is the exit code.
func supervise() int {
	var p Program
	if err := json.NewDecoder(os.Stdin).Decode(&p); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor: reading what to run:", err)
		return 2
	}
	orphaned := make(chan struct{})
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); close(orphaned) }()
	// Only SIGTERM ends a supervisor early, in an orderly way. Other signals are caught, not ignored: children would
	// inherit ignored signals, down to the shells in containers.
	stop, others := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	signal.Notify(others, syscall.SIGINT, syscall.SIGHUP)

	cmd, err := launch(p, orphaned)
	if err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: starting %s: %v\n", p.Name, err)
		return 1
	}
	ended := make(chan syscall.WaitStatus, 1)
	go func() { ended <- reapUntil(cmd.Process.Pid) }()
	select {
	case status := <-ended:
		// The folders stay: the owner, if it lives, reads the log.
		if status != 0 {
			fmt.Fprintf(os.Stderr, "supervisor: %s ended: %s\n", p.Name, describe(status))
		}
		_ = cleanUp(p.After)
		if status.Signaled() {
			return 1
		}
		return status.ExitStatus()
	case <-stop:
	case <-orphaned:
	}
	target := cmd.Process.Pid
	if p.Group {
		target = -target
	}
	_ = syscall.Kill(target, p.Stop)
	select {
	case <-ended:
	case <-time.After(p.Grace):
		_ = syscall.Kill(target, syscall.SIGKILL)
		<-ended
	}
	err = cleanUp(p.After)
	for _, dir := range p.Folders {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: cleaning up after %s: %v\n", p.Name, err)
		return 1
	}
	return 0
}

// launch starts the program once no other process uses its files.
func launch(p Program, orphaned <-chan struct{}) (*exec.Cmd, error) {
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Env, cmd.Dir = p.Env, cmp.Or(p.Dir, "/")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if p.Lock != "" {
		lock, err := TryLock(p.Lock)
		for ; errors.Is(err, ErrLocked); lock, err = TryLock(p.Lock) {
			select {
			case <-orphaned:
				return nil, err
			case <-time.After(pollInterval):
			}
		}
		if err != nil {
			return nil, err
		}
		cmd.ExtraFiles = []*os.File{lock} // the program and its children hold it, too
		if err := os.WriteFile(p.Lock, []byte(p.Token), 0o644); err != nil {
			return nil, err
		}
	}
	for _, path := range p.Stale {
		if err := os.RemoveAll(path); err != nil {
			return nil, fmt.Errorf("removing what a killed one left: %w", err)
		}
	}
	for _, dir := range p.Folders {
		if err := makePrivate(dir, p.Credential); err != nil {
			return nil, err
		}
	}
	if err := shell(p.Before); err != nil {
		return nil, err
	}
	// init runs on the main goroutine. That goroutine is locked to the main thread, which lives as long as the process:
	// Pdeathsig fires when the forking *thread* ends.
	cmd.SysProcAttr = attributes(p)
	return cmd, cmd.Start()
}

// reapUntil collects ended children until pid is one of them. As process 1 of a
// namespace the supervisor also inherits orphans.
func reapUntil(pid int) syscall.WaitStatus {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		if got == pid || errors.Is(err, syscall.ECHILD) {
			return status
		}
	}
}

// cleanUp ends the processes that the program left in its namespace and runs the shell command.
func cleanUp(after string) error {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		reapUntil(0)
	}
	return shell(after)
}

func shell(command string) error {
	if command == "" {
		return nil
	}
	if out, err := exec.Command("sh", "-c", command).CombinedOutput(); err != nil {
		return fmt.Errorf("running %q: %w: %s", command, err, out)
	}
	return nil
}
