package sandbox

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestProgram: the files are programs for their processors, and the one for this machine waits forever.
func TestProgram(t *testing.T) {
	for name, want := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		program := machines[name].program()
		f, err := elf.NewFile(bytes.NewReader(program))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if f.Machine != want || f.Type != elf.ET_EXEC || f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || len(f.Progs) != 1 {
			t.Fatalf("%s: %+v with %d segments", name, f.FileHeader, len(f.Progs))
		}
		p := f.Progs[0]
		if p.Type != elf.PT_LOAD || p.Flags != elf.PF_R|elf.PF_X || p.Filesz != uint64(len(program)) || p.Memsz != p.Filesz || p.Vaddr%p.Align != p.Off%p.Align {
			t.Errorf("%s: the segment is %+v", name, p.ProgHeader)
		}
		begin := f.Entry - p.Vaddr
		if begin >= uint64(len(program)) || !bytes.Equal(program[begin:], machines[name].code) {
			t.Errorf("%s: it begins at %#x of %d bytes", name, begin, len(program))
		}
	}
}

// TestProgramWaits runs the program where that is possible.
func TestProgramWaits(t *testing.T) {
	m, ok := machines[runtime.GOARCH]
	if !ok || runtime.GOOS != "linux" {
		t.Skip("there is no program for this machine")
	}
	path := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(path, m.program(), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	wait.Until(t, "it waits", func() bool {
		select {
		case err := <-ended:
			t.Fatalf("it has ended: %v", err)
		default:
		}
		status, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/status")
		return err == nil && strings.Contains(string(status), "State:\tS (sleeping)")
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it has ended: %v", err)
	}
}
