package server

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// systemPath is where programs of the system are, also those that only root has in PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// find returns the path of the first of the programs that is in PATH or where systems
// keep programs.
func find(names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range filepath.SplitList(os.Getenv("PATH") + ":" + systemPath) {
			if path := filepath.Join(dir, name); isExecutable(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed", names[0])
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// GoInstall builds a program of another module into the cache, once, however many
// processes ask at the same time, and returns its path.
func GoInstall(ctx context.Context, pkg, version string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	bin, name := filepath.Join(cache, "bin"), filepath.Base(pkg)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("making the folder for built programs: %w", err)
	}
	path := filepath.Join(bin, name+"-"+version)
	lock, err := Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isExecutable(path) {
		return path, nil
	}
	cmd := exec.CommandContext(ctx, "go", "install", pkg+"@"+version)
	cmd.Dir = bin // outside our module, whose versions must not matter
	cmd.Env = append(os.Environ(), "GOBIN="+path+".d", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s %s: %w\n%s", name, version, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(filepath.Join(path+".d", name), path); err != nil {
		return "", fmt.Errorf("keeping the built %s: %w", name, err)
	}
	return path, os.Remove(path + ".d")
}
