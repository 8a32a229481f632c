package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// roleEnv tells a copy of this test binary its role.
const roleEnv = "CODEHUB_PREVIEW_ROLE"

// endLimit is how long a process of these tests may take from its start to its end. It is long because test machines
// are busy.
const endLimit = time.Minute

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "":
		os.Exit(m.Run())
	case "make": // starts the preview and waits for it
		cmd := exec.Command(os.Args[0], os.Args[1:]...)
		cmd.Env = append(os.Environ(), roleEnv+"=preview")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		check(cmd.Run())
	case "builder": // starts the pages and does not end by itself
		b, err := newBuilder()
		check(err)
		b.socket = filepath.Join(b.dir, "socket")
		check(os.Setenv(roleEnv, "preview"))
		if failed := b.start(os.Args[0]); failed != "" {
			check(fmt.Errorf("starting the pages: %s", failed))
		}
		fmt.Println("ready")
		select {}
	default:
		main()
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestEndsWithItsParent checks that a process ends when the process that started it is killed. It kills a process that,
// like make, started a preview. It also kills a preview, which started the program that serves the pages. Their output
// ends when the last of them has ended.
func TestEndsWithItsParent(t *testing.T) {
	t.Chdir("../../../../..")
	for _, c := range []struct {
		role string
		args []string
	}{
		{"make", []string{"-listen", "127.0.0.1:0"}},
		{"builder", nil},
	} {
		t.Run(c.role, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], c.args...)
			cmd.Env = append(os.Environ(), roleEnv+"="+c.role, "TMPDIR="+t.TempDir())
			cmd.Stderr = os.Stderr
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			limit := time.AfterFunc(endLimit, func() { _ = stdout.Close() })
			defer limit.Stop()
			out := bufio.NewReader(stdout)
			line, err := out.ReadString('\n')
			if err == nil {
				err = cmd.Process.Kill()
			}
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			if rest, err := io.ReadAll(out); err != nil || strings.TrimSpace(string(rest)) != "" {
				t.Errorf("after %q came %q, %v", line, rest, err)
			}
			_ = cmd.Wait() // fails, because it was killed
		})
	}
}
