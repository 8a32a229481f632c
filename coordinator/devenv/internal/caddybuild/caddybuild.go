// Package caddybuild builds the custom Caddy that xcaddy.json describes.
//
// The file is the JSON form of [xcaddy.Builder] and the only place with the versions and modules of the build. It
// always builds: the go command skips up-to-date parts.
package caddybuild

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/caddyserver/xcaddy"

	"github.com/codehub/gateway/coordinator/devenv/internal/revision"
)

// Description is the name of the file that describes the build.
const Description = "xcaddy.json"

// Load reads the description in root and makes relative replacements absolute, because xcaddy builds in its own
// folder. An unknown field is an error, because it would have no effect.
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

// Build makes root/caddy for this machine. It uses the flags of a plain go command and the folders of the
// replacements themselves, so that it shares the build cache with the tests.
func Build(ctx context.Context, root string) error {
	cgo, err := goEnv(ctx, "CGO_ENABLED")
	if err != nil {
		return err
	}
	return logged(func(log *bytes.Buffer) error {
		return build(ctx, root, filepath.Join(root, "caddy"), log, func(b *xcaddy.Builder) func(string) error {
			b.Cgo = cgo == "1"
			return func(string) error { return nil }
		})
	})
}

// BuildRelease makes the program that is shipped: static, and the same file in every folder for the same commit. The
// target system is named as in GOOS and GOARCH; empty names mean the present system.
func BuildRelease(ctx context.Context, root, system, arch, out string) error {
	return logged(func(log *bytes.Buffer) error { return buildRelease(ctx, root, system, arch, out, log) })
}

// buildRelease is BuildRelease, but appends the build's output to log.
func buildRelease(ctx context.Context, root, system, arch, out string, log *bytes.Buffer) error {
	return build(ctx, root, out, log, func(b *xcaddy.Builder) func(string) error {
		b.OS, b.Arch = system, arch
		b.BuildFlags = "-trimpath " + b.BuildFlags
		return linksFor(b.Replacements)
	})
}

// logged adds the build's output to its error.
func logged(build func(log *bytes.Buffer) error) error {
	var log bytes.Buffer
	if err := build(&log); err != nil {
		return fmt.Errorf("building Caddy: %w\n%s", err, log.String())
	}
	return nil
}

// build makes the program out. prepare returns a function that adds files to the folder in which xcaddy builds.
func build(
	ctx context.Context, root, out string, log *bytes.Buffer, prepare func(*xcaddy.Builder) func(created string) error,
) error {
	builder, err := Load(root)
	if err != nil {
		return err
	}
	if builder.BuildFlags == "" {
		builder.BuildFlags = "-buildvcs=false -tags nobadger,nomysql,nopgx -ldflags '-s -w " + revision.LinkerFlag(ctx, root) + "'"
	}
	if builder.Env, err = buildEnv(ctx); err != nil {
		return err
	}
	add := prepare(&builder)
	builder.OnStep = func(e *xcaddy.StepEvent) error {
		if _, err := io.Copy(log, e.Output); err != nil {
			return err
		}
		if e.Step != xcaddy.StepCreateEnvironment {
			return nil
		}
		created := createdFolder.FindStringSubmatch(log.String())
		if created == nil {
			return errors.New("xcaddy does not say which folder it builds in")
		}
		return errors.Join(add(created[1]), takeSums(root, created[1]))
	}
	return builder.Build(ctx, out)
}

// createdFolder matches xcaddy's message about the folder in which it builds.
var createdFolder = regexp.MustCompile(`Temporary folder: (.+)`)

// takeSums copies the checksums of the modules from root into the folder in which xcaddy builds. Without them the go
// command would accept any content of a module.
func takeSums(root, folder string) error {
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		return fmt.Errorf("reading the checksums of the modules: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, "go.sum"), sums, 0o600)
}

// linksFor changes the replacements that name folders, so that they name links inside the folder in which xcaddy
// builds. The program records the path of a replacement as it is written, so it must not be a path of this machine. The
// returned function makes the links in that folder.
func linksFor(replacements []xcaddy.Replace) func(created string) error {
	links := make(map[string]string)
	for i, r := range replacements {
		if folder := string(r.New); filepath.IsAbs(folder) {
			name := fmt.Sprintf("replacement-%d", i)
			links[name], replacements[i].New = folder, xcaddy.ReplacementPath("./"+name)
		}
	}
	return func(created string) error {
		for name, folder := range links {
			if err := os.Symlink(folder, filepath.Join(created, name)); err != nil {
				return fmt.Errorf("placing a replacement beside the main package: %w", err)
			}
		}
		return nil
	}
}

// buildEnv is the environment of the go command. The command asks the network about this module, although the working
// copy replaces it. With "off" after the first proxy, a refusal by that proxy is final, and the command does not ask
// the module's origin.
func buildEnv(ctx context.Context) ([]string, error) {
	proxies, err := goEnv(ctx, "GOPROXY")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(proxies, "|", ","), ",")
	return append(os.Environ(), "GOPROXY="+first+"|off"), nil
}

// goEnv returns a setting of the go command.
func goEnv(ctx context.Context, name string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", name).Output()
	if err != nil {
		return "", fmt.Errorf("asking go for its %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
