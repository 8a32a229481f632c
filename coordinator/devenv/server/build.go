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

// systemPath has the folders of system programs, including those that only root has in PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

const (
	// versitygwVersion is the release of github.com/versity/versitygw (Apache-2.0) that serves as the private object
	// store. It runs as a separate program: its library form changes the process's working folder and allows one per
	// process.
	versitygwVersion = "v1.8.0"
	// helmVersion is the version of Helm with which the chart is tested.
	helmVersion = "v4.3.1"
	// gotestsumVersion is the version of the program that prints the failed tests and their output last.
	gotestsumVersion = "v1.13.0"
)

// BuildHelm returns the path of Helm. Building it takes some minutes.
func BuildHelm(ctx context.Context) (string, error) {
	return install(ctx, "helm.sh/helm/v4/cmd/helm", helmVersion)
}

// BuildGotestsum returns the path of gotestsum.
func BuildGotestsum(ctx context.Context) (string, error) {
	return install(ctx, "gotest.tools/gotestsum", gotestsumVersion)
}

// BuildAll builds every program that tests start besides those of this repository and Helm.
func BuildAll(ctx context.Context) error {
	for _, build := range []func(context.Context) (string, error){BuildGotestsum, BuildS3, BuildRclone, BuildOIDC,
		BuildCompose, BuildSBOM} {
		if _, err := build(ctx); err != nil {
			return err
		}
	}
	return nil
}

// BuildS3 returns the path of the object store of the tests.
func BuildS3(ctx context.Context) (string, error) {
	return install(ctx, "github.com/versity/versitygw/cmd/versitygw", versitygwVersion)
}

// BuildRclone returns the path of rclone. Its version is in rcloneserver/go.mod.txt.
func BuildRclone(ctx context.Context) (string, error) { return buildModule(ctx, "rcloneserver") }

// BuildOIDC returns the path of the identity provider. Its version is in oidcprovider/go.mod.txt.
func BuildOIDC(ctx context.Context) (string, error) { return buildModule(ctx, "oidcprovider") }

// BuildCompose returns the path of a program that reads compose files as Docker Compose does. Its version is in
// compose/go.mod.txt.
func BuildCompose(ctx context.Context) (string, error) { return buildModule(ctx, "compose") }

// BuildSBOM returns the path of a program that lists another program's modules. The versions of its libraries are in
// sbom/go.mod.txt.
func BuildSBOM(ctx context.Context) (string, error) { return buildModule(ctx, "sbom") }

// install builds a program of another module, whose versions must not influence ours.
func install(ctx context.Context, pkg, version string) (string, error) {
	name := filepath.Base(pkg)
	return cached(ctx, name, version, "install", pkg+"@"+version)
}

// modules are the sources of programs that have modules of their own, because their requirements must not become ours.
// The names of the files end with .txt, so that the go command does not mistake the folders for packages.
//
//go:embed compose/*.txt oidcprovider/*.txt rcloneserver/*.txt sbom/*.txt
var modules embed.FS

// buildModule builds a program of modules.
func buildModule(ctx context.Context, name string) (string, error) {
	sum := sha256.New()
	for _, file := range []string{"go.mod", "go.sum", "main.go"} {
		text, err := modules.ReadFile(name + "/" + file + ".txt")
		if err != nil {
			return "", fmt.Errorf("reading the source of %s: %w", name, err)
		}
		sum.Write(text)
	}
	return cached(ctx, name, hex.EncodeToString(sum.Sum(nil)[:8]), "build", "-o", name, ".")
}

// cached returns the path of a program in the cache. The first time, the given go command builds the program there. If
// the program's source is one of modules, the command runs in a folder with that source. Any number of processes may
// ask at the same time.
func cached(ctx context.Context, name, version string, command ...string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "bin", name+"-"+version)
	folder := path + ".d"
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", fmt.Errorf("making the folder for built programs: %w", err)
	}
	lock, err := Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isExecutable(path) {
		return path, nil
	}
	defer os.RemoveAll(folder)
	if err := unpack(name, folder); err != nil {
		return "", fmt.Errorf("writing the source of %s: %w", name, err)
	}
	cmd := exec.CommandContext(ctx, "go", command...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOBIN="+folder, "GOFLAGS=-trimpath", "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s %s: %w\n%s", name, version, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(filepath.Join(folder, name), path); err != nil {
		return "", fmt.Errorf("keeping the built %s: %w", name, err)
	}
	return path, nil
}

// unpack makes a folder with the source of one of modules, or an empty one.
func unpack(name, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	files, _ := modules.ReadDir(name) // there are none of another name
	for _, file := range files {
		text, err := modules.ReadFile(name + "/" + file.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, strings.TrimSuffix(file.Name(), ".txt")), text,
			0o644); err != nil {
			return err
		}
	}
	return nil
}

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
