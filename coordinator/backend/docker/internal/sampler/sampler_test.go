package sampler

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/internal/work"
)

// onThisMachine asks this machine's ps as the engine does.
func onThisMachine(t *testing.T, arguments []string) []work.Process {
	t.Helper()
	out, err := exec.Command("ps", arguments...).Output()
	if err != nil {
		t.Fatalf("ps %q: %v", arguments, err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	columns := len(strings.Fields(lines[0]))
	var top container.TopResponse
	for _, line := range lines[1:] {
		fields := strings.Fields(line)
		if len(fields) >= columns {
			fields = append(fields[:columns-1], strings.Join(fields[columns-1:], " "))
			top.Processes = append(top.Processes, fields)
		}
	}
	return parseProcesses(top)
}

// ended is the CPU time of the process's ended children, from the kernel.
func ended(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skipf("this system does not tell it: %v", err)
	}
	_, rest, _ := bytes.Cut(stat, []byte(") "))
	var ticks int
	for _, field := range strings.Fields(string(rest))[13:15] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// A build consists of many short programs, whose CPU time still counts after they have ended.
func TestEndedChildrenAreCounted(t *testing.T) {
	if out, err := exec.Command("ps", "-V").CombinedOutput(); err != nil || !bytes.Contains(out, []byte("procps")) {
		t.Skip("this machine's ps is not that of procps")
	}
	cmd := exec.Command("sh", "-c",
		`while read next; do sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done'; echo; done`)
	next, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = next.Close(), cmd.Wait() })
	answers := bufio.NewReader(out)
	for ended(t, cmd.Process.Pid) < 2100*time.Millisecond {
		if _, err := fmt.Fprintln(next); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	for _, arguments := range psArguments {
		found := false
		for _, p := range onThisMachine(t, arguments) {
			if p.PID == cmd.Process.Pid {
				found = true
				if p.CPU < 2*time.Second {
					t.Errorf("ps %q: %v of CPU time, want 2 s or more", arguments, p.CPU)
				}
			}
		}
		if !found {
			t.Errorf("ps %q does not list the process", arguments)
		}
	}
}

func TestCPUTime(t *testing.T) {
	for text, want := range map[string]int64{"0:00": 0, "0:07": 7, "2:05": 125, "123:59": 7439} {
		if got, err := seconds(text); err != nil || got != want {
			t.Errorf("%s: %d s, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-", "7", ":", "1:", "a:b"} {
		if got, err := seconds(text); err == nil {
			t.Errorf("%q is %d s, want an error", text, got)
		}
	}
}
