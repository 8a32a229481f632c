// Package caddybuild builds the custom Caddy that xcaddy.json describes.
//
// The file is the JSON form of [xcaddy.Builder] and the single source of the build:
// versions and modules are named nowhere else.
package caddybuild

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/caddyserver/xcaddy"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Description is the name of the file that says what is built.
const Description = "xcaddy.json"

// Load reads the description in root and makes relative replacements absolute,
// because xcaddy builds in a folder of its own. An unknown field is an error: it
// would be a setting that does nothing.
func Load(root string) (xcaddy.Builder, error) {
	var b xcaddy.Builder
	text, err := os.ReadFile(filepath.Join(root, Description))
	if err != nil {
		return b, fmt.Errorf("reading what to build: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&b); err != nil {
		return b, fmt.Errorf("reading %s: %w", Description, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return b, fmt.Errorf("reading %s: there is more than one JSON value in it", Description)
	}
	if !strings.HasPrefix(b.CaddyVersion, "v") {
		return b, fmt.Errorf("reading %s: caddy_version is %q; pin a version such as v2.11.9", Description, b.CaddyVersion)
	}
	if len(b.Plugins) == 0 {
		return b, fmt.Errorf("reading %s: no plugins: that would be a plain Caddy", Description)
	}
	for i, r := range b.Replacements {
		if local := string(r.New); strings.HasPrefix(local, ".") {
			b.Replacements[i].New = xcaddy.ReplacementPath(filepath.Join(root, local))
		}
	}
	return b, nil
}

// Result tells what [Build] did.
type Result struct {
	// Path is the program.
	Path string
	// New tells that it was built now, and not found to be up to date.
	New bool
}

// Build makes root/caddy, unless the one that is there was made from the same
// sources. What the build prints goes to log.
func Build(ctx context.Context, root string, log io.Writer) (Result, error) {
	result := Result{Path: filepath.Join(root, "caddy")}
	cache, err := server.CacheDir()
	if err != nil {
		return result, err
	}
	// The stamp belongs to this working copy; it says which program was made from what.
	where := sha256.Sum256([]byte(root))
	stamp := filepath.Join(cache, "caddy-"+hex.EncodeToString(where[:6]))
	lock, err := server.Lock(stamp + ".lock")
	if err != nil {
		return result, err
	}
	defer lock.Close()

	inputs, err := hashInputs(ctx, root)
	if err != nil {
		return result, err
	}
	if made, err := hashFile(result.Path); err == nil {
		if text, err := os.ReadFile(stamp); err == nil && string(text) == inputs+" "+made+"\n" {
			return result, nil
		}
	}
	builder, err := Load(root)
	if err != nil {
		return result, err
	}
	if builder.Env, err = buildEnv(ctx); err != nil {
		return result, err
	}
	builder.OnStep = func(e *xcaddy.StepEvent) error {
		_, err := io.Copy(log, e.Output)
		return err
	}
	out := stamp + ".new"
	defer os.Remove(out)
	if err := builder.Build(ctx, out); err != nil {
		return result, fmt.Errorf("building Caddy: %w", err)
	}
	// Renamed into place, so that a running one goes on undisturbed. The cache may be
	// on another file system, hence the copy.
	if err := install(out, result.Path); err != nil {
		return result, err
	}
	made, err := hashFile(result.Path)
	if err != nil {
		return result, err
	}
	if err := os.WriteFile(stamp, []byte(inputs+" "+made+"\n"), 0o644); err != nil {
		return result, fmt.Errorf("noting what was built: %w", err)
	}
	result.New = true
	return result, nil
}

// buildEnv is the environment of the go command. The go command would ask the
// network about this very module, although it is replaced by the working copy; "off"
// after the first proxy makes a refusal there final instead of asking its origin.
func buildEnv(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("asking go for its proxy: %w", err)
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(string(out)), "|", ","), ",")
	return append(os.Environ(), "GOPROXY="+first+"|off"), nil
}

// hashInputs hashes everything the program is made from: the Go version, the
// description, the module's versions, and the sources, without tests.
func hashInputs(ctx context.Context, root string) (string, error) {
	h := sha256.New()
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOFLAGS", "GOEXPERIMENT").Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its version: %w", err)
	}
	fmt.Fprintf(h, "%s %s %s\n", runtime.GOOS, runtime.GOARCH, version)
	for _, start := range []string{Description, "go.mod", "go.sum", "caddymodule", "coordinator"} {
		err := filepath.WalkDir(filepath.Join(root, start), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == "testdata" || d.Name() == "devenv" {
					return fs.SkipDir
				}
				return nil
			}
			if strings.HasSuffix(d.Name(), "_test.go") {
				return nil
			}
			sum, err := hashFile(path)
			fmt.Fprintf(h, "%s %s\n", path, sum)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("reading the sources: %w", err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// install copies a program to a name that always is a whole program.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("opening the built program: %w", err)
	}
	defer in.Close()
	tmp, err := os.CreateTemp(filepath.Dir(to), ".caddy-*")
	if err != nil {
		return fmt.Errorf("putting the built program in place: %w", err)
	}
	defer os.Remove(tmp.Name())
	if _, err := io.Copy(tmp, in); err != nil {
		tmp.Close()
		return fmt.Errorf("putting the built program in place: %w", err)
	}
	if err := tmp.Chmod(0o755); err != nil {
		tmp.Close()
		return fmt.Errorf("putting the built program in place: %w", err)
	}
	if err := tmp.Close(); err != nil {
		return fmt.Errorf("putting the built program in place: %w", err)
	}
	if err := os.Rename(tmp.Name(), to); err != nil {
		return fmt.Errorf("putting the built program in place: %w", err)
	}
	return nil
}
