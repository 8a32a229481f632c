package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/devenv/internal/revision"
)

// reproduce builds the commit of root twice, in folders with different names and with empty caches, and compares
// everything that is shipped. The modules come from this machine's cache, whose content go.sum fixes. Together the
// builds take many minutes.
func reproduce(ctx context.Context, root string) error {
	if of := revision.Of(ctx, root); strings.HasSuffix(of, "-dirty") {
		fmt.Fprintln(os.Stderr, "what is not committed is not built:", of)
	}
	base, err := os.MkdirTemp("", "codehub-reproduce-")
	if err != nil {
		return fmt.Errorf("making a folder for two builds: %w", err)
	}
	defer os.RemoveAll(base)
	var shipped [2]map[string]string
	for i, name := range []string{"one", "another/copy"} {
		copied := filepath.Join(base, name)
		cmd := command(ctx, base, "git", "clone", "--quiet", "--no-hardlinks", root, copied)
		root = copied // the next one is of the same commit, whatever is committed meanwhile
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("copying the repository: %w", err)
		}
		cache := filepath.Join(base, fmt.Sprintf("cache-%d", i))
		if shipped[i], err = buildCopy(ctx, copied, cache); err != nil {
			return err
		}
		if err := os.RemoveAll(cache); err != nil { // it has gigabytes
			return err
		}
	}
	return compare(os.Stdout, shipped[0], shipped[1])
}

// buildCopy builds the images and the package from a copy of the repository, with its own cache, and returns their
// files.
func buildCopy(ctx context.Context, root, cache string) (map[string]string, error) {
	builder := filepath.Join(root, ".codehub", "bin", "devenv")
	contents := filepath.Join(root, ".codehub", "contents")
	for _, argv := range [][]string{
		{"go", "build", "-o", builder, "./coordinator/devenv/cmd/devenv"},
		{builder, "contents", contents}, {builder, "deb"},
	} {
		cmd := command(ctx, root, argv[0], argv[1:]...)
		cmd.Env = append(os.Environ(), "GOCACHE="+filepath.Join(cache, "go-build"), "XDG_CACHE_HOME="+cache)
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("building a copy: %w", err)
		}
	}
	images, err := checksums(contents)
	if err != nil {
		return nil, err
	}
	packages, err := checksums(filepath.Join(root, ".codehub", "dist"))
	if err != nil {
		return nil, err
	}
	maps.Copy(images, packages)
	return images, nil
}

// checksums returns the mode and the checksum of every file below a folder.
func checksums(folder string) (map[string]string, error) {
	sums := make(map[string]string)
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		sums[path] = info.Mode().String()
		if d.IsDir() {
			return nil
		}
		f, err := files.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		_, err = io.Copy(sum, f)
		sums[path] += fmt.Sprintf(" %x", sum.Sum(nil))
		return err
	})
	return sums, err
}

// compare prints the files of two builds, and returns an error that names those that differ.
func compare(out io.Writer, one, other map[string]string) error {
	var errs []error
	both := maps.Clone(one)
	maps.Copy(both, other)
	for _, path := range slices.Sorted(maps.Keys(both)) {
		if one[path] != other[path] {
			errs = append(errs, fmt.Errorf("two builds of %s differ: %q and %q", path, one[path], other[path]))
			continue
		}
		if _, err := fmt.Fprintln(out, one[path], path); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
