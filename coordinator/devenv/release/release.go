// Package release builds coordinator processes and storage jobs of older releases, for tests of
// upgrades. It builds from the history of this repository, once for all tests and runs on this
// machine.
//
// It owns the list of releases, and their programs in testdata. Only tests may import it.
package release

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Past is an older state of the product that installations may be in.
type Past struct {
	// Commit is in the history of this source. The commit has a folder in testdata, with its part of the program that
	// runs the release's coordinator.
	Commit string
	// Version is empty for installations from before there were versions.
	Version string
	// Schema is the number of its newest migration.
	Schema int
}

// String is its name in the names of tests.
func (p Past) String() string { return cmp.Or(p.Version, p.Commit) }

// All are the releases from which tests upgrade, the oldest first. A new release adds itself here.
var All = []Past{
	{Commit: "89186bf", Schema: 1},
	{Commit: "0be5b23", Schema: 4},
	{Commit: "82b487a", Version: "0.1.0", Schema: 13},
}

// Last is the newest one. The present source must be able to run beside the last release. The last release must be able
// to run again after the present source has run (CONTRIBUTING).
func Last() Past { return All[len(All)-1] }

// Config is the configuration of a process of an older release.
type Config struct {
	Node, Database, Redis string
	Archive               archive.Options
	Docker                docker.Options
	// GCDelay is how long the process keeps unneeded archives, and how old an unfinished upload may become before it is
	// removed. GCInterval is the time between its collections.
	GCDelay, GCInterval time.Duration
	// Keep is how many archives of a workspace are kept; releases without a version keep one.
	Keep int
}

// Variable returns the environment variable with a process's configuration.
func (c Config) Variable(t testing.TB) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return "CODEHUB_TEST_RELEASE=" + string(text)
}

// Release is an older release on this machine.
type Release struct {
	commit, source string
}

// history returns the folder of this source. It skips the test if the history does not have the commit, as in a
// shallow clone.
func (p Past) history(t testing.TB) string {
	t.Helper()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := exec.Command("git", "-C", root, "cat-file", "-e", p.Commit+"^{commit}").Run(); err != nil {
		t.Skipf("commit %s is not in a history of this source (%v): an archive of it or a shallow clone has none",
			p.Commit, err)
	}
	return root
}

// File returns a file of the release, or nil if it had none. It may skip the test, as [Past.Build] does.
func (p Past) File(t testing.TB, path string) []byte {
	t.Helper()
	root := p.history(t)
	if exec.Command("git", "-C", root, "cat-file", "-e", p.Commit+":"+path).Run() != nil {
		return nil
	}
	text, err := exec.Command("git", "-C", root, "show", p.Commit+":"+path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// Build compiles a process of the release. It skips the test if the history does not have the commit.
//
// The source is kept below the user's cache, because the go command finds its earlier builds there. The folder's name
// contains a hash of its content, so that a folder never changes.
func (p Past) Build(t testing.TB) Release {
	t.Helper()
	root, commit := p.history(t), p.Commit
	here := filepath.Join(root, "coordinator", "devenv", "release", "testdata")
	program, err := os.ReadFile(filepath.Join(here, "process.go"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(filepath.Join(here, commit, "release.go"))
	if err != nil {
		t.Fatal(err)
	}
	cache, err := server.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	r := Release{commit, filepath.Join(cache,
		fmt.Sprintf("release-%s-%x", commit, sha256.Sum256(slices.Concat(program, own))))}
	lock, err := server.Lock(r.source + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // which only frees it
	if _, err := os.Stat(r.source); err == nil {
		return r
	}
	unfinished := r.source + ".new"
	if err := build(unfinished, root, commit, map[string][]byte{"process.go": program, "release.go": own}); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(unfinished, r.source); err != nil {
		t.Fatal(err)
	}
	return r
}

// build makes the folder of a release.
func build(folder, root, commit string, program map[string][]byte) error {
	process, chart := filepath.Join(folder, "process"), filepath.Join(folder, "caddymodule", "deploy", "chart")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(process, 0o700)); err != nil { // of a run that was ended
		return err
	}
	unpack := exec.Command("sh", "-ec", `git -C "$0" archive -o "$2/source.tar" "$1"; tar -C "$2" -xf "$2/source.tar"`,
		root, commit, folder)
	if out, err := unpack.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", unpack, err, out)
	}
	// The chart's version becomes the version of the storage job's image. The first release had no chart, so write one
	// for it.
	_, err := os.Stat(filepath.Join(chart, "Chart.yaml"))
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.Join(os.MkdirAll(chart, 0o700),
			os.WriteFile(filepath.Join(chart, "Chart.yaml"), []byte("appVersion: \"0.0.0\"\n"), 0o600))
	}
	for name, text := range program {
		err = errors.Join(err, os.WriteFile(filepath.Join(process, name), text, 0o600))
	}
	if err = errors.Join(err, os.Remove(filepath.Join(folder, "source.tar"))); err != nil {
		return err
	}
	compile := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(process, "process"), "./process")
	compile.Dir = folder
	if out, err := compile.CombinedOutput(); err != nil {
		return fmt.Errorf("compiling a process of %s: %w\n%s", commit, err, out)
	}
	return nil
}

// Process returns the path of the program that runs the release's coordinator, with the configuration in
// [Config.Variable]. The program prints "started" once, and "leads" or "follows" each time that it begins to lead or to
// follow. Each line of its input is a number and a command. The line of its output that answers the command begins with
// the same number: see testdata/process.go.
func (r Release) Process() string { return filepath.Join(r.source, "process", "process") }

// StorageJob returns the reference of the release's image of the storage job on the engine of
// [devenv.Docker].
func (r Release) StorageJob(t testing.TB) string {
	t.Helper()
	old := image.StorageJob
	old.Name += "-" + r.commit // whose tags are not those of the present one
	ref, err := old.Build(t.Context(), devenv.Docker(t), r.source)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}
