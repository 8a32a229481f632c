package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestArchivesOpenWithoutUs runs the commands that docs/backups.md, in both languages, gives for users who have an
// archive but none of our programs.
func TestArchivesOpenWithoutUs(t *testing.T) {
	for _, program := range []string{"tar", "zstd", "sha256sum"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed, so nothing tells whether it opens our archives", program)
		}
	}
	b, from := newBench(t), home(t, 300_000)
	must(t, os.MkdirAll(filepath.Join(from, "notes"), 0o755))
	must(t, os.WriteFile(filepath.Join(from, "notes/todo.md"), []byte("buy milk"), 0o600))
	must(t, os.WriteFile(filepath.Join(from, "disk.img"), []byte("boot"), 0o6755))
	must(t, os.Truncate(filepath.Join(from, "disk.img"), 64<<20))
	must(t, unix.Setxattr(filepath.Join(from, "notes"), "user.color", []byte("red"), 0))
	b.ok("archive", from)
	archive, _ := b.get(b.key)
	checksum, _ := b.get(meta)

	comment := regexp.MustCompile(`\s+#.*`)
	var commands [2]string
	for i, name := range []string{"../caddymodule/docs/backups.md", "../caddymodule/docs/backups.ko.md"} {
		text, err := os.ReadFile(name)
		must(t, err)
		block := regexp.MustCompile("(?s)```sh\n(sha256sum home.*?)```").FindSubmatch(text)
		if block == nil {
			t.Fatalf("%s does not say how an archive is opened", name)
		}
		commands[i] = comment.ReplaceAllString(string(block[1]), "")
	}
	if commands[0] != commands[1] {
		t.Errorf("the guides differ:\n%s\n%s", commands[0], commands[1])
	}
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "home.tar.zst"), archive, 0o600))
	cmd := exec.Command("sh", "-ec", commands[0])
	cmd.Dir = dir
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%v: %s\n%s", err, &errs, commands[0])
	}
	if sum, _, _ := strings.Cut(string(out), " "); "sha256:"+sum != string(checksum) {
		t.Errorf("sha256sum says %q, the .meta %q", sum, checksum)
	}
	if !strings.Contains(string(out), "./notes/todo.md\n") {
		t.Errorf("the listing is %q", out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "notes/todo.md")); err != nil || string(text) != "buy milk" {
		t.Errorf("the single file holds %q, %v", text, err)
	}
	opened := filepath.Join(dir, "home")
	requireSame(t, listing(t, from), opened)
	value := make([]byte, 10)
	if n, err := unix.Getxattr(filepath.Join(opened, "notes"), "user.color", value); err != nil ||
		string(value[:n]) != "red" {
		t.Errorf("the attribute is %q, %v", value, err)
	}
	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(opened, "disk.img"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file takes %d bytes", st.Blocks*512)
	}
}
