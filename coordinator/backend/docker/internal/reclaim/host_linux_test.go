package reclaim

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
)

// holds is the environment of a process that holds memory and answers lines.
const holds = "RECLAIM_TEST_HOLDS"

const held = 96 << 20 // bytes

func TestMain(m *testing.M) {
	if os.Getenv(holds) != "" {
		hold()
		return
	}
	os.Exit(m.Run())
}

// hold answers each line with the sum of its memory, which compresses well.
func hold() {
	memory := make([]byte, held)
	for i := 0; i < len(memory); i += 64 {
		memory[i] = byte(i >> 12)
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		sum := 0
		for i := 0; i < len(memory); i += 64 {
			sum += int(memory[i])
		}
		fmt.Println(sum)
	}
}

// holder is a process in a control group that is named like that of a container.
type holder struct {
	t     *testing.T
	group string
	pid   int
	in    interface{ Write([]byte) (int, error) }
	out   *bufio.Scanner
}

// newHolder skips the test where nothing can be handed back.
func newHolder(t *testing.T) *holder {
	if err := This.Able(); err != nil {
		t.Skipf("nothing to see here: %v", err)
	}
	h := &holder{t: t, group: filepath.Join(This.Groups, "codehub-test-"+id)}
	if err := os.Mkdir(h.group, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.freeze("0")
		wait.Until(t, "the group to be removed", func() bool { return os.Remove(h.group) == nil })
	})
	cmd := exec.Command("/bin/sh", "-c", `echo $$ > "$1"/cgroup.procs && exec "$0"`, os.Args[0], h.group)
	cmd.Env = append(os.Environ(), holds+"=1")
	in, err := cmd.StdinPipe()
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
	t.Cleanup(func() { h.freeze("0"); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	h.pid, h.in, h.out = cmd.Process.Pid, in, bufio.NewScanner(out)
	if !h.out.Scan() {
		t.Fatal("the process ended")
	}
	return h
}

func (h *holder) freeze(value string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.group, "cgroup.freeze"), []byte(value), 0); err != nil {
		h.t.Error(err)
	}
	wait.Until(h.t, "the group to be frozen: "+value, func() bool { return frozen(h.group) == (value == "1") })
}

func (h *holder) sum() string {
	fmt.Fprintln(h.in)
	h.out.Scan()
	return h.out.Text()
}

func (h *holder) uses() int64 {
	h.t.Helper()
	n, err := current(h.group)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

// TestMemoryOfAFrozenProcess goes to swap, and comes back as it was when the process goes on.
func TestMemoryOfAFrozenProcess(t *testing.T) {
	h := newHolder(t)
	was, before := h.sum(), h.uses()
	if n, err := This.Reclaim(t.Context(), id, h.pid); n != 0 || err != nil || h.uses() < before/2 {
		t.Fatalf("of a process that is not frozen: %d, %v", n, err)
	}
	h.freeze("1")
	began := time.Now()
	n, err := This.Reclaim(t.Context(), id, h.pid)
	t.Logf("%d of %d MB in %s", n>>20, before>>20, time.Since(began))
	if after := h.uses(); err != nil || n < held/2 || after > before-held/2 || !frozen(h.group) {
		t.Errorf("%d bytes, %v, from %d to %d", n, err, before, after)
	}
	h.freeze("0")
	if got := h.sum(); got != was {
		t.Errorf("the memory has become %s, was %s", got, was)
	}
}

// TestThawDoesNotWait: a process that goes on meanwhile keeps the rest of its memory.
func TestThawDoesNotWait(t *testing.T) {
	h := newHolder(t)
	h.freeze("1")
	before := h.uses()
	ended := make(chan error, 1)
	go func() {
		_, err := This.Reclaim(context.Background(), id, h.pid)
		ended <- err
	}()
	wait.Until(t, "some memory to go", func() bool { return h.uses() < before-chunk/2 })
	began := time.Now()
	h.freeze("0")
	thawed := time.Since(began)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("thawed in %s; the reclaim ended %s later", thawed, time.Since(began)-thawed)
	if swapped := h.uses(); swapped < chunk {
		t.Errorf("all but %d bytes went although it went on", swapped)
	}
	h.sum()
}
