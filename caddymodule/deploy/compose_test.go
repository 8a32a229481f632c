package deploy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// variables contains the variables that .env must set.
var variables = map[string]string{"DOCKER_GID": "986"}

// service contains the fields of a service in the compose file that the tests check.
type service struct {
	Image       string
	Build       *struct{ Context, Dockerfile, Target string }
	NetworkMode string `json:"network_mode"`
	Networks    map[string]any
	Ports       []any
	Privileged  bool
	CapAdd      []string `json:"cap_add"`
	SecurityOpt []string `json:"security_opt"`
	Restart     string
	User        string
	HealthCheck *struct{ Test []string }
	Volumes     []struct{ Type, Source, Target string }
	Environment map[string]string
	Entrypoint  []string
	Command     []string
	Secrets     []struct{ Source string }
	DependsOn   map[string]any `json:"depends_on"`
}

// project is a compose file as Docker Compose parses it.
type project struct {
	Services map[string]service
	Networks map[string]struct {
		Name     string
		Internal bool
	}
	Secrets map[string]struct{ File string }
	Volumes map[string]any
}

// compose parses the compose file and the files in more, with no variables other than those in env.
func compose(t *testing.T, env map[string]string, more ...string) (project, error) {
	t.Helper()
	reader, err := server.BuildCompose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var p project
	cmd := exec.Command(reader, append([]string{"compose/compose.yaml"}, more...)...)
	cmd.Env = []string{}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	text, err := cmd.Output()
	if err != nil {
		return p, &exec.Error{Name: said.String(), Err: err}
	}
	if err := json.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	return p, nil
}

// TestComposeRefusesToStartWithoutSecrets checks that the compose file is invalid without .env, and that the error
// names the remedy. The commands that create the secrets also create .env. If .env exists but the file of a secret is
// missing, the container engine does not start the container.
func TestComposeRefusesToStartWithoutSecrets(t *testing.T) {
	if _, err := compose(t, nil); err == nil || !strings.Contains(err.Error(), "DOCKER_GID is missing a value: is missing in .env") {
		t.Errorf("it is taken: %v", err)
	}
}

// TestTheFirstLinesMakeSecrets runs the commands in the first lines of the compose file unchanged. It checks that they
// create all files that the services read, and that other users of the host cannot read these files. If the commands
// run again, they change nothing, because the database keeps its first password.
func TestTheFirstLinesMakeSecrets(t *testing.T) {
	var script strings.Builder
	for line := range strings.Lines(head(t)) {
		if command, found := strings.CutPrefix(line, "#   "); found {
			script.WriteString(command)
		} else if script.Len() > 0 {
			break
		}
	}
	folder := t.TempDir()
	commands, _, found := strings.Cut(strings.ReplaceAll(script.String(), "/var/run/docker.sock", "."), "docker compose up")
	if !found {
		t.Fatalf("they are %s", script.String())
	}
	run := func() (string, error) {
		cmd := exec.Command("sh", "-euc", "umask 022\n"+commands)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if info, err := os.Stat(filepath.Join(folder, "secrets")); err != nil || info.Mode() != os.ModeDir|0o700 {
		t.Errorf("others may look into the folder: %v, %v", info, err)
	}
	made := func() map[string]string {
		all := make(map[string]string)
		entries, err := os.ReadDir(filepath.Join(folder, "secrets"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			path := filepath.Join(folder, "secrets", e.Name())
			if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
				t.Errorf("the users of containers cannot read %s: %v, %v", e.Name(), info, err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			all[e.Name()] = strings.TrimSpace(string(text))
		}
		return all
	}
	first := made()
	seen := make(map[string]bool)
	for _, name := range []string{"POSTGRES_PASSWORD", "REDIS_PASSWORD", "S3_SECRET_KEY", "CODEHUB_ADMIN_PASSWORD"} {
		if seen[first[name]] || len(first[name]) != 48 {
			t.Errorf("%s is %q", name, first[name])
		}
		seen[first[name]] = true
	}
	if want := "postgres://codehub:" + first["POSTGRES_PASSWORD"] + "@/codehub?host=/run/postgresql"; first["DATABASE_URL"] != want {
		t.Errorf("DATABASE_URL is %s, not %s", first["DATABASE_URL"], want)
	}
	if want := "unix://:" + first["REDIS_PASSWORD"] + "@/run/redis/redis.sock"; first["REDIS_URL"] != want {
		t.Errorf("REDIS_URL is %s, not %s", first["REDIS_URL"], want)
	}
	if out, err := run(); err == nil || !maps.Equal(made(), first) {
		t.Errorf("run again, they change them: %v\n%s", err, out)
	}

	text, err := os.ReadFile(filepath.Join(folder, ".env"))
	if err != nil {
		t.Fatal(err)
	}
	env := make(map[string]string)
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	p, err := compose(t, env)
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]bool)
	for name, s := range p.Services {
		for _, secret := range s.Secrets {
			read[secret.Source] = true
			if file := p.Secrets[secret.Source].File; !strings.HasSuffix(file, "/compose/secrets/"+secret.Source) {
				t.Errorf("%s reads %s from %q", name, secret.Source, file)
			}
		}
	}
	if !maps.EqualFunc(first, read, func(string, bool) bool { return true }) {
		t.Errorf("services read %v, and there are %v", read, slices.Sorted(maps.Keys(first)))
	}
}

// TestComposeHasNoSecretsItself checks that services read secrets from files only. The engine shows variables and
// arguments to everyone with access to it, so they must not contain a secret.
func TestComposeHasNoSecretsItself(t *testing.T) {
	p, err := compose(t, variables)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range p.Services {
		var all []string
		for variable, value := range s.Environment {
			if secret := regexp.MustCompile(`PASSWORD|SECRET|_URL$`).MatchString(variable); secret &&
				!regexp.MustCompile(`^(\{file\.)?/run/secrets/\w+\}?$`).MatchString(value) {
				t.Errorf("%s has %s=%s", name, variable, value)
			}
			all = append(all, value)
		}
		all = append(append(all, s.Entrypoint...), s.Command...)
		for _, m := range regexp.MustCompile(`/run/secrets/(\w+)`).FindAllStringSubmatch(strings.Join(all, " "), -1) {
			if !slices.ContainsFunc(s.Secrets, func(secret struct{ Source string }) bool { return secret.Source == m[1] }) {
				t.Errorf("%s reads %s, which it does not have", name, m[1])
			}
		}
	}
}

// head returns the first lines of the compose file, which explain how to use it.
func head(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), "\nname:")
	return head
}

// TestComposeWithDigests checks that the override in the first lines pins the digest of every image from a registry,
// and changes nothing else.
func TestComposeWithDigests(t *testing.T) {
	plain, err := compose(t, variables)
	if err != nil {
		t.Fatal(err)
	}
	first := head(t)
	lines := regexp.MustCompile(`(?m)^#   (services:|  \w+: \{image: .*)$`).FindAllStringSubmatch(first, -1)
	digest := strings.Repeat("0123456789abcdef", 4)
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(strings.ReplaceAll(line[1], "…", digest) + "\n")
	}
	override := filepath.Join(t.TempDir(), "compose.override.yaml")
	if err := os.WriteFile(override, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	fixed, err := compose(t, variables, override)
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	for name, want := range plain.Services {
		if want.Build == nil {
			if !strings.Contains(first, "docker compose pull") || strings.Count(first, want.Image) != 2 {
				t.Errorf("the first lines do not say what is behind %s", want.Image)
			}
			want.Image += "@sha256:" + digest
		}
		if got := fixed.Services[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, not %+v", name, got, want)
		}
	}
}

// exact matches the name of an image in a registry, with a complete version or with a digest.
var exact = regexp.MustCompile(`^[a-z/]+:[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z]+)?$|@sha256:[0-9a-f]{64}$`)

// TestCompose checks that every service restarts automatically and has a health check. It also checks that only the
// gateway can be reached from the network, and that the version of every image is fixed.
func TestCompose(t *testing.T) {
	p, err := compose(t, variables)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Services) != 5 {
		t.Errorf("there are %d services", len(p.Services))
	}
	for name, s := range p.Services {
		once := name == "storagejob"
		if want := map[bool]string{false: "unless-stopped", true: "no"}[once]; s.Restart != want {
			t.Errorf("%s restarts %q", name, s.Restart)
		}
		if !once && (s.HealthCheck == nil || len(s.HealthCheck.Test) < 2) {
			t.Errorf("%s has no health check", name)
		}
		if len(s.Ports) > 0 || s.Privileged || len(s.CapAdd) > 0 || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has ports or rights: %+v", name, s)
		}
		if want := map[string]string{"gateway": "host", "store": ""}[name]; s.NetworkMode != want && s.NetworkMode != "none" {
			t.Errorf("%s has the network %q", name, s.NetworkMode)
		}
		if !exact.MatchString(s.Image) {
			t.Errorf("the image %s of %s floats", s.Image, name)
		}
		for _, v := range s.Volumes {
			if _, named := p.Volumes[v.Source]; v.Type != "volume" && v.Source != "/var/run/docker.sock" || v.Type == "volume" && !named {
				t.Errorf("%s mounts %+v", name, v)
			}
			if v.Type == "bind" && name != "gateway" {
				t.Errorf("%s has the engine's socket", name)
			}
		}
		if s.Build != nil && s.User != "65532:65532" {
			t.Errorf("%s runs as %q", name, s.User)
		}
	}
	if len(p.Services["gateway"].DependsOn) != 4 {
		t.Errorf("the gateway waits for %v", p.Services["gateway"].DependsOn)
	}
	if n := p.Networks["store"]; len(p.Networks) != 1 || !n.Internal || n.Name != "codehub-store" {
		t.Errorf("the networks are %+v", p.Networks)
	}
	for name, want := range map[string]string{"gateway": image.Gateway.Tag(), "storagejob": image.StorageJob.Tag()} {
		if p.Services[name].Image != want {
			t.Errorf("%s is %s, not of this release, %s", name, p.Services[name].Image, want)
		}
	}
}

// instructions returns the instructions of a Dockerfile that say how a container is run. They come from one stage or,
// if stage is empty, from all stages.
func instructions(t *testing.T, path, stage string) (all []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := stage == ""
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] == "FROM" && stage != "" {
			in = words[len(words)-1] == stage
		}
		if in && slices.Contains([]string{"ENV", "USER", "EXPOSE", "LABEL", "ENTRYPOINT", "CMD", "VOLUME"}, words[0]) {
			all = append(all, strings.Join(words, " "))
		}
	}
	return all
}

// TestComposeMakesTheSameImages checks that Compose builds the same images as `make image`.
func TestComposeMakesTheSameImages(t *testing.T) {
	for stage, other := range map[string]string{"gateway": "Dockerfile", "storagejob": "../../storagejob/Dockerfile"} {
		here, there := instructions(t, "compose/Dockerfile", stage), instructions(t, other, "")
		if len(here) == 0 || !slices.Equal(here, there) {
			t.Errorf("%s: %q, and in %s %q", stage, here, other, there)
		}
	}
	// The program is built with the Go version of go.mod or a newer one.
	text, err := os.ReadFile("compose/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+)`).FindAllStringSubmatch(string(text), -1) {
		if m[1] != "scratch" && !exact.MatchString(m[1]) {
			t.Errorf("the image %s floats", m[1])
		}
	}
}
