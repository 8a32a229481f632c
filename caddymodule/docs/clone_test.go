package docs_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCloningARepository runs the program of images.md with Git. The program clones only into an empty project, and
// runs its command in every case.
func TestCloningARepository(t *testing.T) {
	program := ""
	for _, b := range read(t, "images.md").blocks {
		if strings.Contains(b.text, "CODEHUB_GIT_URL") && b.language == "sh" {
			program = b.text
		}
	}
	if program == "" {
		t.Fatal("images.md does not show how an image clones a repository")
	}
	entry := filepath.Join(t.TempDir(), "entry")
	if err := os.WriteFile(entry, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	// The Git settings of the person who runs this test do not apply.
	run := func(home, address string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = home
		cmd.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "CODEHUB_GIT_URL=" + address}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	source := t.TempDir()
	for _, line := range []string{
		"git init -q .", "touch README", "git add README",
		"git -c user.name=a -c user.email=a@example.com -c commit.gpgsign=false commit -q -m first",
	} {
		if out, err := run(source, "", strings.Fields(line)...); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	gone := filepath.Join(source, "gone")
	for name, c := range map[string]struct {
		prepare, address string
		want             map[string]string // the files of the project
	}{
		"no address":               {"", "", nil},
		"nothing there":            {"", source, map[string]string{"README": ""}},
		"an empty folder":          {"mkdir project", source, map[string]string{"README": ""}},
		"a clone that was broken":  {"mkdir -p .project.new/.git; echo x > .project.new/README", source, map[string]string{"README": ""}},
		"a file":                   {"mkdir project; echo mine > project/README", source, map[string]string{"README": "mine\n"}},
		"a hidden file":            {"mkdir project; echo mine > project/.env", source, map[string]string{".env": "mine\n"}},
		"a folder":                 {"mkdir -p project/src", source, map[string]string{}},
		"a link elsewhere":         {"mkdir other; ln -s other project", source, map[string]string{}},
		"no such repository":       {"", gone, map[string]string{}},
		"something like an option": {"", "--upload-pack=touch bad", map[string]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if out, err := run(home, "", "sh", "-ec", c.prepare); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			for range 2 { // the second run does not clone again
				if out, err := run(home, c.address, entry, "echo", "it runs"); err != nil || !strings.HasSuffix(out, "it runs\n") {
					t.Errorf("%v\n%s", err, out)
				}
				files := map[string]string{}
				entries, err := os.ReadDir(filepath.Join(home, "project"))
				if (err != nil) != (c.want == nil) {
					t.Error(err)
				}
				for _, e := range entries {
					if !e.IsDir() {
						text, err := os.ReadFile(filepath.Join(home, "project", e.Name()))
						if err != nil {
							t.Error(err)
						}
						files[e.Name()] = string(text)
					}
				}
				if !maps.Equal(files, c.want) {
					t.Errorf("the project has %v, want %v", files, c.want)
				}
			}
			if _, err := os.Stat(filepath.Join(home, "bad")); err == nil {
				t.Error("the address ran a command")
			}
		})
	}
}
