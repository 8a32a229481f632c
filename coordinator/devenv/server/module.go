package server

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// modules are the sources of programs in modules of their own, whose requirements must not
// be ours. The names end with .txt, so that the go command does not take them for packages.
//
//go:embed oidcprovider/*.txt rcloneserver/*.txt
var modules embed.FS

// buildModule returns the path of a program of modules, which the go command builds into
// the cache the first time.
func buildModule(ctx context.Context, name string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	files := make(map[string][]byte)
	sum := sha256.New()
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		if files[file], err = modules.ReadFile(name + "/" + file + ".txt"); err != nil {
			return "", fmt.Errorf("reading the source of %s: %w", name, err)
		}
		sum.Write(files[file])
	}
	if err := os.MkdirAll(filepath.Join(cache, "bin"), 0o755); err != nil {
		return "", fmt.Errorf("making the folder for built programs: %w", err)
	}
	path := filepath.Join(cache, "bin", name+"-"+hex.EncodeToString(sum.Sum(nil)[:8]))
	lock, err := Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isExecutable(path) {
		return path, nil
	}
	source := path + ".d"
	defer os.RemoveAll(source)
	if err := os.MkdirAll(source, 0o755); err != nil {
		return "", fmt.Errorf("making a folder for the source of %s: %w", name, err)
	}
	for file, text := range files {
		if err := os.WriteFile(filepath.Join(source, file), text, 0o644); err != nil {
			return "", fmt.Errorf("writing the source of %s: %w", name, err)
		}
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, ".")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, strings.TrimSpace(string(out)))
	}
	return path, nil
}
