package debian

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/storagejob/contract"
)

// TestVersionsSort: for dpkg, each commit is newer than those before it, regardless of their names. It is also
// newer than older packages, whose versions had only the commit's name.
func TestVersionsSort(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is not here, and compares them")
	}
	root := t.TempDir()
	file := filepath.Join(root, "file")
	git := func(date int, args ...string) {
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=n", "-c", "user.email=e"}, args...)...)
		when := strconv.Itoa(1_767_222_000+date) + " +0900" // the last hour of a year in UTC
		cmd.Env = append(os.Environ(), "GIT_COMMITTER_DATE="+when, "GIT_AUTHOR_DATE="+when)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	versions := []string{contract.Release, contract.Release + "+000000000000", Version(t.Context(), root),
		contract.Release + "+ffffffffffff.dirty"}
	git(0, "init", "-q")
	// The names of these eight commits do not sort in the commits' order.
	for commit := range 8 {
		write(strconv.Itoa(commit))
		git(commit*1000, "add", "file")
		git(commit*1000, "commit", "-q", "-m", "m")
		versions = append(versions, Version(t.Context(), root))
		write("changed")
		versions = append(versions, Version(t.Context(), root))
	}
	versions = append(versions, contract.Release+".1", contract.Release+"9")
	for i, newer := range versions[1:] {
		if older := versions[i]; exec.Command("dpkg", "--compare-versions", older, "lt", newer).Run() != nil {
			t.Errorf("%s is not older than %s", older, newer)
		}
	}
}

// TestTheGuidesOfThePackage: each link leads to a file of the package, or to the source. The guide about monitoring
// leads to the alert rules and the dashboard.
func TestTheGuidesOfThePackage(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	staged := t.TempDir()
	if err := stageDocuments(root, staged); err != nil {
		t.Fatal(err)
	}
	has := make(map[string]bool)
	for _, f := range files {
		has[f.to] = true
	}
	guides, err := filepath.Glob(filepath.Join(staged, documents, "guides", "*.md"))
	if err != nil || len(guides) < 30 {
		t.Fatalf("%d guides, %v", len(guides), err)
	}
	led := make(map[string]bool)
	for _, document := range append(guides, filepath.Join(staged, documents, "README.md"), filepath.Join(staged, documents, "SECURITY.md")) {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		from, err := filepath.Rel(staged, filepath.Dir(document))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#\s]+)`).FindAllStringSubmatch(string(text), -1) {
			if strings.HasPrefix(m[1], "https://") {
				if path, ours := strings.CutPrefix(m[1], source); ours {
					if _, err := os.Stat(filepath.Join(root, path)); err != nil {
						t.Errorf("%s: %v", document, err)
					}
				}
				continue
			}
			to := path.Join(filepath.ToSlash(from), m[1])
			led[to] = true
			if _, err := os.Stat(filepath.Join(staged, to)); err != nil && !has[to] {
				t.Errorf("%s links to %s, which is not in the package", document, m[1])
			}
		}
	}
	for _, to := range []string{shared + "/alerts.yaml", shared + "/dashboard.json", "etc/codehub/Caddyfile",
		documents + "/Caddyfile.example", documents + "/changelog.gz", documents + "/guides/dashboard.en.png"} {
		if !led[to] {
			t.Errorf("no document leads to %s", to)
		}
	}
}
