package reclaim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const id = "78e3cb300cde17bdc83878d95b649426eee6b78bc0ade6a1e00d96c92643b0e0"

func TestGroupOfAContainer(t *testing.T) {
	for text, want := range map[string]string{
		"0::/docker/" + id + "\n":                              "/docker/" + id,
		"0::/system.slice/docker-" + id + ".scope\n":           "/system.slice/docker-" + id + ".scope",
		"5:memory:/docker/" + id + "\n0::/docker/" + id + "\n": "/docker/" + id,
		"5:memory:/docker/" + id + "\n0::/\n":                  "", // cgroup v1
		"0::/\n":                                               "",
		"":                                                     "",
		"0::/../" + id + "\n":                                  "", // seen from another namespace
		"0::/docker/../" + id + "\n":                           "",
		"0::/docker/" + id + "/inner\n":                        "",
		"0::/docker/" + strings.Repeat("0", 64) + "\n":         "",
		"0::/system.slice/ssh.service\n":                       "",
		"0::docker/" + id + "\n":                               "",
	} {
		if got := groupOf(text, id); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, short := range []string{"", "d", id[:12]} {
		if got := groupOf("0::/docker/"+id+"\n", short); got != "" {
			t.Errorf("the id %q is that of %s", short, got)
		}
	}
}

func TestWhereSwapIsCompressed(t *testing.T) {
	const titles = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
	for _, c := range []struct {
		swaps string
		zswap string
		want  error
	}{
		{"", "Y\n", ErrNoSwap},
		{titles, "Y\n", ErrNoSwap},
		{titles + "/dev/vdb partition 2097148 0 -2\n", "Y\n", nil},
		{titles + "/dev/vdb partition 2097148 0 -2\n", "1\n", nil},
		{titles + "/dev/vdb partition 2097148 0 -2\n", "N\n", ErrSlowSwap},
		{titles + "/dev/vdb partition 2097148 0 -2\n", "", ErrSlowSwap},
		{titles + "/dev/vdb partition 2097148 2097148 -2\n", "Y\n", ErrNoSwap},
		{titles + "/dev/zram0 partition 2097148 100 100\n", "N\n", nil},
		{titles + "/dev/zram0 partition 2097148 2097148 100\n/dev/vdb partition 2097148 0 -2\n", "N\n", ErrSlowSwap},
	} {
		if got := swap(c.swaps, c.zswap); !errors.Is(got, c.want) {
			t.Errorf("%q, zswap %q: %v, want %v", c.swaps, c.zswap, got, c.want)
		}
	}
}

func TestWhatIsFrozen(t *testing.T) {
	for text, want := range map[string]bool{
		"populated 1\nfrozen 1\n": true, "populated 1\nfrozen 0\n": false, "populated 1\n": false, "": false,
	} {
		if isFrozen(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// TestWhatKeepsMemory: a host without what is needed says which of it is missing, and nothing is written.
func TestWhatKeepsMemory(t *testing.T) {
	h := Host{Proc: t.TempDir(), Groups: t.TempDir(), Zswap: filepath.Join(t.TempDir(), "enabled")}
	write := func(content string, path ...string) {
		t.Helper()
		file := filepath.Join(path...)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	group := filepath.Join(h.Groups, "docker", id)
	write("0::/docker/"+id+"\n", h.Proc, "7", "cgroup")
	write("populated 1\nfrozen 0\n", group, "cgroup.events")
	write("100\n", group, "memory.current")
	write("untouched", group, "memory.reclaim")
	for _, step := range []struct {
		adds []string // content, and the parts of the path
		want error
	}{
		{nil, ErrNoGroups},
		{[]string{"memory\n", h.Groups, "cgroup.controllers"}, ErrNoReclaim},
		{[]string{"", h.Groups, "system.slice", "memory.reclaim"}, ErrNoSwap},
		{[]string{"titles\n/dev/vdb partition 100 0 -2\n", h.Proc, "swaps"}, ErrSlowSwap},
		{[]string{"Y\n", h.Zswap}, nil},
	} {
		if step.adds != nil {
			write(step.adds[0], step.adds[1:]...)
		}
		if n, err := h.Reclaim(t.Context(), id, 7); n != 0 || !errors.Is(err, step.want) {
			t.Errorf("after %q: %d, %v, want %v", step.adds, n, err, step.want)
		}
	}
	if _, err := h.Reclaim(t.Context(), strings.Repeat("0", 64), 7); !errors.Is(err, errElsewhere) {
		t.Errorf("a process of another container: %v", err)
	}
	if _, err := h.Reclaim(t.Context(), id, 8); !errors.Is(err, errElsewhere) {
		t.Errorf("no such process: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	write("populated 1\nfrozen 1\n", group, "cgroup.events")
	if _, err := h.Reclaim(ended, id, 7); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(filepath.Join(group, "memory.reclaim")); string(text) != "untouched" {
		t.Errorf("written %q, %v to a container that is not frozen, or at its end", text, err)
	}
}
