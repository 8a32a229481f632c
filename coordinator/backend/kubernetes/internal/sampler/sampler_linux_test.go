package sampler

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
)

// TestLookScript runs the script on this machine, in the shells of common images.
func TestLookScript(t *testing.T) {
	if _, err := os.Stat("/proc/self/io"); err != nil {
		t.Skip("this machine has no /proc as Linux has it")
	}
	var used syscall.Rusage
	for used.Utime.Nano()+used.Stime.Nano() < int64(30*time.Millisecond) { // three ticks of the kernel
		if err := errors.Join(os.WriteFile(os.DevNull, []byte("x"), 0o600), syscall.Getrusage(syscall.RUSAGE_SELF, &used)); err != nil {
			t.Fatal(err)
		}
	}
	for _, shell := range [][]string{{"sh"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			cmd := exec.Command(shell[0], append(shell[1:], "-c", lookScript)...)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			s, err := parseLook(out, false)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(s.Processes, func(p work.Process) bool { return p.PID == os.Getpid() })
			if i < 0 {
				t.Fatalf("this process is not among the %d", len(s.Processes))
			}
			p := s.Processes[i]
			if p.Parent != os.Getppid() || p.Written <= 0 || p.CPU <= 0 || p.CPU > time.Hour || !strings.HasPrefix(p.Args, os.Args[0]+" ") {
				t.Errorf("this process is %+v", p)
			}
			if slices.ContainsFunc(s.Processes, func(p work.Process) bool { return p.PID == cmd.Process.Pid || p.Parent == cmd.Process.Pid }) {
				t.Error("it shows the look's own processes")
			}
		})
	}
}

func TestParseLook(t *testing.T) {
	stat := func(pid int, name string, parent, session, tpgid, utime int) string {
		return fmt.Sprintf("==> /proc/%[1]d/stat <==\n%[1]d (%[2]s) S %[3]d %[1]d %[4]d 0 %[5]d 4194304 1 2 3 18446744073709551615 %[6]d 1 1 1 20 0\n", pid, name, parent, session, tpgid, utime)
	}
	out := "9\n" + stat(1, "pause", 0, 0, -1, 0) + "\n" + stat(7, "app ) S 1 1", 0, 7, -1, 47) + "\n" + stat(8, "bash", 7, 8, 30, 0) + "\n" +
		stat(9, "sh", 0, 0, -1, 1) + "\n" + stat(10, "head", 9, 0, -1, 1) + "\n" +
		"==> /proc/7/io <==\nrchar: 5\nwchar: 99\nsyscr: 1\n\n==> /proc/7/cmdline <==\nserve\x008080\x00\n==> /proc/11/cmdline <==\ngone\x00" +
		"\n==> busy <==\n1000\n1060\nbuilding the world\nmore\n"
	s, err := parseLook([]byte(out), true)
	if err != nil {
		t.Fatal(err)
	}
	if s.Main != 7 || len(s.Processes) != 2 || !s.Terminals {
		t.Fatalf("%+v", s)
	}
	if got, want := s.Processes[0], (work.Process{PID: 7, Group: 7, Session: 7, Foreground: -1, CPU: 500 * time.Millisecond, Written: 99, Args: "serve 8080"}); got != want {
		t.Errorf("the application is %+v, want %+v", got, want)
	}
	if got, want := s.Processes[1], (work.Process{PID: 8, Parent: 7, Group: 8, Session: 8, Foreground: 30, CPU: 30 * time.Millisecond, Written: -1}); got != want {
		t.Errorf("the shell is %+v, want %+v", got, want)
	}
	if s.File == nil || s.File.Age != time.Minute || s.File.Line != "building the world" {
		t.Errorf("the busy file is %+v", s.File)
	}
	if s, err := parseLook([]byte(out), false); err != nil || s.Main != 1 || len(s.Processes) != 3 {
		t.Errorf("in a namespace of its own: %+v, %v", s, err)
	}
	for _, bad := range []string{"", "sh: head: not found\n", "9\n", "9\n" + stat(9, "sh", 0, 0, -1, 1), "x" + out} {
		if s, err := parseLook([]byte(bad), true); err == nil {
			t.Errorf("%q says %+v", bad, s)
		}
	}
}
