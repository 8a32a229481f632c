package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSayingItYourself runs the script of awake.md: while ./build.sh runs, the file exists and contains the reason.
// Afterwards the file is gone.
func TestSayingItYourself(t *testing.T) {
	var lines string
	for _, b := range read(t, "awake.md").blocks {
		if strings.Contains(b.text, "./build.sh") {
			lines = b.text
		}
	}
	if lines == "" {
		t.Fatal("awake.md does not say how a script keeps its workspace awake")
	}
	home := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(home, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The first line has already created the file. The build removes it, and waits until it is created again.
	write("build.sh", `rm ~/.codehub/busy; until grep -s build ~/.codehub/busy >seen; do :; done`)
	write("sleep", `:`) // no half-minute pauses
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", lines)
	cmd.Dir, cmd.Env = home, append(os.Environ(), "HOME="+home, "PATH="+home+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if seen, err := os.ReadFile(filepath.Join(home, "seen")); err != nil || string(seen) != "nightly build\n" {
		t.Errorf("the build has seen %q, %v", seen, err)
	}
	if _, err := os.Stat(filepath.Join(home, ".codehub/busy")); err == nil {
		t.Error("the file is left after the build")
	}
}
