package revision

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

func TestOf(t *testing.T) {
	root := t.TempDir()
	if of := Of(t.Context(), root); of != "" {
		t.Errorf("a folder that is no repository has %q", of)
	}
	file := filepath.Join(root, "file")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("first")
	for _, args := range [][]string{{"init", "-q"}, {"add", "file"},
		{"-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "first"}} {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	clean := Of(t.Context(), root)
	if !regexp.MustCompile(`^[0-9a-f]{12}$`).MatchString(clean) {
		t.Errorf("the commit is %q", clean)
	}
	write("second")
	if of := Of(t.Context(), root); of != clean+"-dirty" {
		t.Errorf("with a change it is %q", of)
	}
	inside := filepath.Join(root, "inside")
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if of := Of(t.Context(), inside); of != "" {
		t.Errorf("a folder inside another repository has %q", of)
	}
}
