package caddybuild_test

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
)

// The description of this repository names this repository, by an absolute path.
func TestLoadOwnDescription(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := caddybuild.Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Plugins) != 1 || b.Plugins[0].PackagePath != "github.com/codehub/gateway/caddymodule" {
		t.Errorf("plugins: %+v", b.Plugins)
	}
	if len(b.Replacements) != 1 || string(b.Replacements[0].New) != root {
		t.Errorf("replacements: %+v; want this repository, %s", b.Replacements, root)
	}
	// The version must be the one in go.mod, which the tests use.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/caddyserver/caddy/v2 "+b.CaddyVersion+"\n") {
		t.Errorf("%s builds Caddy %s; go.mod has another version", caddybuild.Description, b.CaddyVersion)
	}
}

func TestLoadRefuses(t *testing.T) {
	const plugins = `"plugins":[{"module_path":"m"}]`
	for name, text := range map[string]string{
		"unknown field":      `{"caddy_version":"v2.11.9","plugin":[{"module_path":"m"}]}`,
		"version not pinned": `{"caddy_version":"latest",` + plugins + `}`,
		"no version":         `{` + plugins + `}`,
		"no plugin":          `{"caddy_version":"v2.11.9"}`,
		"not JSON":           `caddy_version: v2`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, caddybuild.Description), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b, err := caddybuild.Load(dir); err == nil {
				t.Fatalf("accepted as %+v", b)
			} else if !strings.Contains(err.Error(), caddybuild.Description) {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
}

// TestBuildSaysNothingOfThisMachine: a release build produces the same program everywhere and at any time, and every
// module in it has an allowed licence. `make reproduce` compares two builds with separate caches.
func TestBuildSaysNothingOfThisMachine(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "caddy")
	var log bytes.Buffer
	if err := caddybuild.BuildReleaseWithLog(t.Context(), root, "", "", file, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	program, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Dir(cache)
	for _, path := range []string{root, cache, filepath.Join(home, "go", "pkg"), os.TempDir() + "/buildenv"} {
		if bytes.Contains(program, []byte(path)) {
			t.Errorf("the program has %s in it", path)
		}
	}
	bill, _, err := sbom.Of(t.Context(), root, file, "gateway")
	if err != nil {
		t.Fatal(err)
	}
	if err := sbom.Check(bill); err != nil {
		t.Error(err)
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Read go.mod only, and not the whole graph of modules: the cache may lack modules from which nothing is imported.
	cmd := exec.Command("go", "mod", "edit", "-json")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	type module struct{ Path, Version string }
	var fixed struct{ Require []module }
	if err := json.Unmarshal(out, &fixed); err != nil {
		t.Fatal(err)
	}
	for _, dep := range info.Deps {
		switch {
		case dep.Path == "github.com/codehub/gateway":
			if dep.Replace == nil || dep.Replace.Path != "./replacement-0" {
				t.Errorf("this module is recorded as %+v", dep.Replace)
			}
		case !slices.Contains(fixed.Require, module{dep.Path, dep.Version}):
			t.Errorf("the program has %s %s in it, which this module does not require", dep.Path, dep.Version)
		}
	}
	// The go command prints this message when it takes the newest version of a module.
	for _, m := range regexp.MustCompile(`finding module for package (\S+)`).FindAllStringSubmatch(log.String(), -1) {
		t.Errorf("nothing fixes the version of the module of %s: import it in pins.go, and go mod tidy", m[1])
	}
}

// TestBuildTakesNoOtherModule: a module whose content is not that of go.sum is refused.
func TestBuildTakesNoOtherModule(t *testing.T) {
	own, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := caddybuild.Load(own)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	description, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(own, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	ofCaddy := regexp.MustCompile(`(?m)^(github\.com/caddyserver/caddy/v2 \S+) h1:.*$`)
	if !ofCaddy.Match(sums) {
		t.Fatal("go.sum has no checksum of Caddy")
	}
	for name, text := range map[string]string{
		caddybuild.Description: string(description),
		"go.sum":               ofCaddy.ReplaceAllString(string(sums), "$1 h1:"+strings.Repeat("A", 43)+"="),
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err = caddybuild.BuildRelease(t.Context(), root, "", "", filepath.Join(t.TempDir(), "caddy"))
	if err == nil || !strings.Contains(err.Error(), "checksum mismatch") {
		t.Errorf("a module with another checksum: %v", err)
	}
}
