package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

// TestWhatIsTheTargetsFault lists the kernel errors for which the archive is not to blame, and whether another archive
// would be accepted.
func TestWhatIsTheTargetsFault(t *testing.T) {
	for errno, byContent := range map[unix.Errno]bool{
		unix.ENOSPC: false, unix.EDQUOT: false, unix.EROFS: false, unix.EIO: false, unix.EACCES: false,
		unix.ESTALE:       false,
		unix.ENAMETOOLONG: true, unix.EINVAL: true, unix.EILSEQ: true, unix.EEXIST: true, unix.EMLINK: true,
		unix.EXDEV: true,
		unix.EPERM: true, unix.ENOTSUP: true, unix.ENOSYS: true, unix.E2BIG: true, unix.ERANGE: true, unix.EFBIG: true,
		unix.EOVERFLOW: true,
	} {
		cause := fmt.Errorf("creating %q: %w", "a", errno)
		got := refused(cause)
		var r *RefusedError
		if !errors.As(got, &r) || r.ByContent != byContent || r.Advice == "" || !errors.Is(got, errno) ||
			errors.Is(got, ErrCorrupt) {
			t.Errorf("%v: %v", errno, got)
			continue
		}
		for _, part := range []string{"the volume's file system", cause.Error(), r.Advice} {
			if !strings.Contains(got.Error(), part) {
				t.Errorf("%v: %q does not say %q", errno, got, part)
			}
		}
		if again := refused(fmt.Errorf("more: %w", got)); strings.Count(again.Error(), r.Advice) != 1 {
			t.Errorf("%v: advised twice: %v", errno, again)
		}
	}
	for _, other := range []error{
		nil, context.Canceled, errors.New("something"), unix.EBADF, ErrBusy,
		fmt.Errorf("%w: %w", ErrCorrupt, unix.EEXIST), // even with an errno that would be the target's fault
	} {
		if got := refused(other); got != other { //nolint:errorlint // the same value
			t.Errorf("%v became %v", other, got)
		}
	}
}

func TestANameThatExistsIsDamageOnlyByteForByte(t *testing.T) {
	path := t.TempDir()
	for i := range 3000 { // more than one call lists
		must(t, os.WriteFile(filepath.Join(path, fmt.Sprint("a file with a long name ", i)), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(path, "name"), nil, 0o600))
	dir, err := os.Open(path)
	must(t, err)
	defer dir.Close()
	for _, c := range []struct {
		err     error
		name    string
		corrupt bool
	}{
		{unix.EEXIST, "name", true}, {unix.EEXIST, "Name", false}, {unix.EEXIST, "nam", false},
		{unix.EISDIR, "x", true}, {unix.ENOTDIR, "x", true},
		{unix.ENAMETOOLONG, "name", false}, {unix.EINVAL, "name", false}, {nil, "name", false},
	} {
		got := damage(c.err, int(dir.Fd()), c.name)
		if errors.Is(got, ErrCorrupt) != c.corrupt || !errors.Is(got, c.err) {
			t.Errorf("%v for %q: %v", c.err, c.name, got)
		}
	}
	if holds(-1, "name") {
		t.Error("a folder that is not open holds a name")
	}
}

func TestAReadOnlyVolumeIsNoDamage(t *testing.T) {
	volume := t.TempDir()
	must(t, unix.Mount("tmpfs", volume, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { must(t, unix.Unmount(volume, unix.MNT_DETACH)) })
	must(t, unix.Mount("", volume, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	_, err := unpackInto(t, volume, bytes.NewReader(craft(t, file("a"))), unlimited)
	var r *RefusedError
	if !errors.As(err, &r) || r.ByContent || !strings.Contains(err.Error(), "mounted read-only") {
		t.Errorf("got %v", err)
	}
}

// large returns an archive with an attribute that no Linux file can have.
func large(t testing.TB) []byte {
	return craft(t, tar.Header{
		Typeflag: tar.TypeReg, Name: "a", Format: tar.FormatPAX,
		PAXRecords: map[string]string{attrs.Prefix + "user.large": strings.Repeat("x", 70_000)},
	})
}

func TestAnAttributeThatDoesNotFitIsNoDamage(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600))
	before := snapshot(t, dir)
	err := restoreInto(t, dir, large(t))
	var r *RefusedError
	if !errors.As(err, &r) || !r.ByContent || errors.Is(err, ErrCorrupt) ||
		!strings.Contains(err.Error(), "user.large") {
		t.Errorf("got %v", err)
	}
	requireEqual(t, before, snapshot(t, dir))
}
