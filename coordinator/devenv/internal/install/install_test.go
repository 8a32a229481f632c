package install

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func ensure(t *testing.T, packages ...string) (string, error) {
	t.Helper()
	var out strings.Builder
	err := Ensure(t.Context(), &out, packages...)
	return out.String(), err
}

func TestNothingMissingPrintsNothing(t *testing.T) {
	if out, err := ensure(t, "postgresql", "redis-server", "ca-certificates"); err != nil || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}

// Where packages cannot be installed, one error names everything that is missing.
func TestMissingIsNamed(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"sh", "id", "ls"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin) // no apt-get
	out, err := ensure(t, "no-such-package", "ca-certificates", "another-one")
	if err == nil || !strings.Contains(out, " no-such-package another-one)") {
		t.Errorf("%v, %q", err, out)
	}
}
