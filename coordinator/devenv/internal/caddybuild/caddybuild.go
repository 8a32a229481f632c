// Package caddybuild builds the custom Caddy that xcaddy.json describes.
//
// The file is the JSON form of [xcaddy.Builder] and the single source of the build:
// versions and modules are named nowhere else. What is up to date is the go command's
// business.
package caddybuild

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/caddyserver/xcaddy"
)

// Description is the name of the file that says what is built.
const Description = "xcaddy.json"

// Load reads the description in root and makes relative replacements absolute, because
// xcaddy builds in a folder of its own. An unknown field is an error: it would be a
// setting that does nothing.
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
	if !strings.HasPrefix(b.CaddyVersion, "v") || len(b.Plugins) == 0 {
		return b, fmt.Errorf("reading %s: it must pin caddy_version, such as v2.11.9, and name plugins", Description)
	}
	for i, r := range b.Replacements {
		if local := string(r.New); strings.HasPrefix(local, ".") {
			b.Replacements[i].New = xcaddy.ReplacementPath(filepath.Join(root, local))
		}
	}
	return b, nil
}

// Build makes root/caddy. An error carries what the build printed.
func Build(ctx context.Context, root string) error {
	return BuildFor(ctx, root, "", "", filepath.Join(root, "caddy"))
}

// BuildFor is [Build] for another system, named as in GOOS and GOARCH, and to another
// file. Empty names mean this system.
func BuildFor(ctx context.Context, root, system, arch, out string) error {
	builder, err := Load(root)
	if err != nil {
		return err
	}
	builder.OS, builder.Arch = system, arch
	if builder.Env, err = buildEnv(ctx); err != nil {
		return err
	}
	var log bytes.Buffer
	builder.OnStep = func(e *xcaddy.StepEvent) error {
		_, err := io.Copy(&log, e.Output)
		return err
	}
	if err := builder.Build(ctx, out); err != nil {
		return fmt.Errorf("building Caddy: %w\n%s", err, log.String())
	}
	return nil
}

// buildEnv is the environment of the go command. It would ask the network about this very module,
// although it is replaced by the working copy. With "off" after the first proxy a refusal there is
// final, and the module's origin is not asked.
func buildEnv(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOPROXY").Output()
	if err != nil {
		return nil, fmt.Errorf("asking go for its proxy: %w", err)
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(strings.TrimSpace(string(out)), "|", ","), ",")
	return append(os.Environ(), "GOPROXY="+first+"|off"), nil
}
