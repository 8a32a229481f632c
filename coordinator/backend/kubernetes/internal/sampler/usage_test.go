package sampler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
)

// TestUsageScript runs the script on this machine, in the shells of common images.
func TestUsageScript(t *testing.T) {
	home := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		path := filepath.Join(home, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, shell := range [][]string{{"sh"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			count := func() (backend.Usage, error) {
				t.Helper()
				out, err := exec.Command(shell[0], append(shell[1:], "-c", fmt.Sprintf(usageScript, home, 60))...).Output()
				if err != nil {
					t.Fatal(err)
				}
				return parseUsage(out)
			}
			if err := os.RemoveAll(filepath.Join(home, "a")); err != nil {
				t.Fatal(err)
			}
			if u, err := count(); err != nil || u != (backend.Usage{}) {
				t.Errorf("an empty home: %+v, %v", u, err)
			}
			write("a/one file\nof a strange name", 1000)
			write("a/b/two", 300_000)
			err := errors.Join(os.Link(filepath.Join(home, "a/b/two"), filepath.Join(home, "a/again")), os.Symlink("/etc", filepath.Join(home, "a/link")))
			if err != nil {
				t.Fatal(err)
			}
			if u, err := count(); err != nil || u != (backend.Usage{Bytes: 301_000, Files: 6}) {
				t.Errorf("%+v, %v", u, err)
			}
			if err := os.Truncate(filepath.Join(home, "a/b/two"), 5<<30); err != nil {
				t.Fatal(err)
			}
			if u, err := count(); err != nil || u.Bytes != 5<<30+1000 {
				t.Errorf("more than 32 bits: %+v, %v", u, err)
			}
		})
	}
}

func TestParseUsage(t *testing.T) {
	for _, test := range []struct {
		out  string
		want backend.Usage
		bad  bool
	}{
		{"12 3 1\n", backend.Usage{Bytes: 12, Files: 3}, false},
		{"12 3 0\n", backend.Usage{Bytes: 12, Files: 3, AtLeast: true}, false},
		{"-12 3 1\n", backend.Usage{}, true},
		{"99999999999999999999 3 1\n", backend.Usage{}, true},
		{"sh: awk: not found\n", backend.Usage{}, true},
		{"", backend.Usage{}, true},
	} {
		if u, err := parseUsage([]byte(test.out)); (err != nil) != test.bad || err == nil && u != test.want {
			t.Errorf("%q: %+v, %v", test.out, u, err)
		}
	}
}

// TestACountIsNoWork: a look shows neither a count nor its children.
func TestACountIsNoWork(t *testing.T) {
	// A stat that waits keeps the count running.
	tools, home := t.TempDir(), t.TempDir()
	stat := "#!/bin/sh\necho >&7\nread -r line <&8\n"
	if err := errors.Join(os.WriteFile(filepath.Join(tools, "stat"), []byte(stat), 0o700), os.WriteFile(filepath.Join(home, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	reached, reachedOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	waits, goOn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	count := exec.Command("sh", "-c", fmt.Sprintf(usageScript, home, 60))
	count.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	count.ExtraFiles = []*os.File{nil, nil, nil, nil, reachedOut, waits} // 7 and 8
	if err := count.Start(); err != nil {
		t.Fatal(err)
	}
	reachedOut.Close()
	if _, err := io.ReadFull(reached, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", lookScript).Output()
	if err != nil {
		t.Fatal(err)
	}
	// In a container, a process that was started from outside has no parent.
	stats := fmt.Sprintf("\n%d (sh) ", count.Process.Pid)
	i := bytes.Index(out, []byte(stats))
	if i < 0 {
		t.Fatal("the look does not see the count at all")
	}
	// It may not be waiting yet.
	parent := regexp.MustCompile(fmt.Sprintf(` [RS] %d `, os.Getpid())).FindIndex(out[i:])
	if parent == nil || parent[0] > 40 {
		t.Fatalf("%.80s", out[i:])
	}
	out = append(append(bytes.Clone(out[:i+parent[0]]), " S 0 "...), out[i+parent[1]:]...)
	s, err := parseLook(out, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Processes {
		if p.PID == count.Process.Pid || strings.Contains(p.Args, home) || strings.Contains(p.Args, tools) {
			t.Errorf("the look shows %+v", p)
		}
	}
	goOn.Close()
	if err := count.Wait(); err != nil {
		t.Error(err)
	}
}
