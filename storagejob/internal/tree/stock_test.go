package tree

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// stock returns a program installed on the machine, or skips the test.
func stock(t *testing.T, name, version string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is not installed, so nothing tells whether it reads our archives", name)
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), version) {
		t.Skipf("%s is not %s: %s", path, version, out)
	}
	return path
}

// TestStockTarReadsIt: a user can open an archive without our programs.
func TestStockTarReadsIt(t *testing.T) {
	gnu := stock(t, "tar", "GNU tar")
	from, to := t.TempDir(), t.TempDir()
	populate(t, from)
	for name, parts := range map[string][]pax.Extent{
		"hole": nil, "begins with data": {part(0, 70_000)}, "ends with data": {part(10*mib, 100)}, "between": {part(mib, 4096), part(5*mib, mib)},
	} {
		sparseAt(t, filepath.Join(from, name), 10*mib+100, parts...)
	}
	sparseAt(t, filepath.Join(from, "large"), 1<<40, part(1<<39, mib))
	odd := "sparse \xff\n" + strings.Repeat("n", 240)
	sparseAt(t, filepath.Join(from, odd), 3*mib, part(mib, 5000))
	must(t, unix.Setxattr(filepath.Join(from, odd), "user.odd=name", []byte("value"), 0))
	must(t, unix.Setxattr(filepath.Join(from, odd), "user.empty", nil, 0))
	must(t, os.Chtimes(filepath.Join(from, odd), time.Time{}, time.Unix(-77, 5)))
	must(t, os.Chtimes(filepath.Join(from, "large"), time.Time{}, time.Unix(4_000_000_000, 999_999_999)))
	must(t, unix.Chown(filepath.Join(from, "large"), 3_000_000_000, 2_500_000))
	must(t, unix.Chmod(filepath.Join(from, "large"), 0o6751))
	want, archive := snapshot(t, from), pack(t, from)

	if got := strings.Count(command(t, archive, gnu, "-tf", "-"), "\n"); got != len(want) {
		t.Errorf("it lists %d entries of %d", got, len(want))
	}
	// The same flags as in caddymodule/docs/backups.md.
	command(t, archive, gnu, "-x", "-p", "--warning=no-timestamp", "--numeric-owner", "--xattrs", "--xattrs-include=*",
		"-C", to, "-f", "-")
	requireEqual(t, want, snapshot(t, to))
	for _, name := range []string{"hole", "begins with data", "ends with data", "between", "large", odd} {
		wantParts, _, _ := mapOfFile(t, filepath.Join(from, name))
		gotParts, _, _ := mapOfFile(t, filepath.Join(to, name))
		if !slices.Equal(gotParts, wantParts) {
			t.Errorf("%q has data at %v, want %v", name, gotParts, wantParts)
		}
	}
}

// TestArchivesOfStockTarAreTaken restores archives made by GNU tar, with sparse files in each of its forms.
func TestArchivesOfStockTarAreTaken(t *testing.T) {
	gnu := stock(t, "tar", "GNU tar")
	from := t.TempDir()
	populate(t, from)
	sparseAt(t, filepath.Join(from, "between"), 10*mib+100, part(4096, 4096), part(5*mib, mib))
	want := snapshot(t, from)
	for _, form := range []string{"1.0", "0.1", "0.0"} {
		t.Run(form, func(t *testing.T) {
			to := t.TempDir()
			archive := command(t, nil, gnu, "-c", "-S", "--format=pax", "--sparse-version="+form, "--numeric-owner",
				"--xattrs", "--xattrs-include=*", "-C", from, ".")
			must(t, restoreInto(t, to, []byte(archive)))
			requireEqual(t, want, snapshot(t, to))
		})
	}
}

// command runs a program with this input.
func command(t *testing.T, input []byte, argv ...string) string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = bytes.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil || errs.Len() > 0 {
		t.Fatalf("%q: %v: %s", argv, err, &errs)
	}
	return string(out)
}
