package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMovingAHome runs the blocks of moving.md that bring a home here. A program that runs the command in another home
// replaces caddy.
func TestMovingAHome(t *testing.T) {
	dir := t.TempDir()
	old, home, bin := filepath.Join(dir, "old"), filepath.Join(dir, "new"), filepath.Join(dir, "bin")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(old, "a b", "한글.txt"), "files", 0o644)
	write(filepath.Join(old, ".profile"), "export A=b", 0o600)
	write(filepath.Join(old, ".cache", "large"), "no file of a person", 0o644)
	write(filepath.Join(old, "project", "node_modules", "m"), "neither", 0o644)
	write(filepath.Join(home, ".keep"), "of the image", 0o644)
	write(filepath.Join(bin, "caddy"), `#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
HOME=`+home+` exec "$@"
`, 0o755)
	var bring, compare string
	for _, b := range read(t, "moving.md").blocks {
		text := strings.ReplaceAll(b.text, "/home/ann", old)
		switch {
		case strings.Contains(text, "tar -C"):
			bring = text
		case strings.Contains(text, "sha256sum"):
			compare = text
		}
	}
	run := func(script string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "LC_ALL=C.UTF-8")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(bring); err != nil || out != "" {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := run(compare); err != nil || out != "" {
		t.Errorf("%v: %s", err, out)
	}
	for path, there := range map[string]bool{"a b/한글.txt": true, ".profile": true, ".keep": true, ".cache": false, "project/node_modules": false} {
		if _, err := os.Stat(filepath.Join(home, path)); (err == nil) != there {
			t.Errorf("%s: %v", path, err)
		}
	}
	write(filepath.Join(home, ".profile"), "other", 0o600)
	if out, err := run(compare); err == nil || !strings.Contains(out, "./.profile: FAILED") {
		t.Errorf("a file that differs: %v: %s", err, out)
	}
	write(filepath.Join(bin, "caddy"), "#!/bin/sh\nexit 255\n", 0o755)
	if out, err := run(bring); err == nil {
		t.Errorf("what does not arrive is no error: %s", out)
	}
}
