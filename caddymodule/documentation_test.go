package codehub

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/caddymodule/internal/settings"
)

// TestExampleIsValid: the example works unchanged if only the two variables that it needs are set.
func TestExampleIsValid(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://codehub@db.example/codehub")
	t.Setenv("REDIS_URL", "redis://redis.example:6379/0")
	config := new(caddy.Config)
	if err := json.Unmarshal([]byte(adapt(t, string(readExample(t)))), config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
}

// TestServiceConfigurationIsValid checks that the configuration beside the systemd unit is valid if only the variables
// that the package names are set.
func TestServiceConfigurationIsValid(t *testing.T) {
	secrets := t.TempDir()
	text, err := os.ReadFile("deploy/systemd/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	const there = "/etc/codehub/secrets/"
	installed, err := os.ReadFile("deploy/debian/postinst")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(installed), "\nfor name in ")
	list, _, _ = strings.Cut(list, ";")
	named := regexp.MustCompile(`\{file\.`+there+`(\w+)\}`).FindAllSubmatch(text, -1)
	if len(named) != len(strings.Fields(list)) {
		t.Errorf("the package makes the files for secrets %s; %d are read", list, len(named))
	}
	for _, m := range named {
		if !slices.Contains(strings.Fields(list), string(m[1])) {
			t.Errorf("the package makes no file for %s", m[1])
		}
		content := map[string]string{"DATABASE_URL": "postgres://codehub@db.example/codehub", "REDIS_URL": "redis://redis.example:6379/0"}[string(m[1])]
		if err := os.WriteFile(filepath.Join(secrets, string(m[1])), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.ReplaceAll(string(text), there, secrets+"/")
	config := new(caddy.Config)
	if err := json.Unmarshal([]byte(adapt(t, here)), config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
	if formatted := caddyfile.Format(text); !bytes.Equal(formatted, text) {
		t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
	}
	for _, m := range regexp.MustCompile(`\{env\.(\w+)\}`).FindAllSubmatch(text, -1) {
		if name := string(m[1]); name != "S3_REGION" && name != "S3_BUCKET" && !bytes.Contains(installed, []byte("# "+name+"=")) {
			t.Errorf("the package's file for addresses does not name %s", name)
		}
	}
}

// TestExampleForKubernetesIsValid: the example also works if its lines about Kubernetes replace the block docker.
func TestExampleForKubernetesIsValid(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://codehub@db.example/codehub")
	t.Setenv("REDIS_URL", "redis://redis.example:6379/0")
	example := regexp.MustCompile(`(?s)\n\t\tdocker \{.*?\n\t\t\}`).ReplaceAllString(withKubernetes(t), "")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"pod.yaml": "spec: {dnsPolicy: ClusterFirst}",
		"kubeconfig": "{kind: Config, apiVersion: v1, clusters: [{name: c, cluster: {server: 'https://cluster.example'}}], users: [{name: u, user: {token: t}}], " +
			"contexts: [{name: production, context: {cluster: c, user: u}}]}",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	example = strings.ReplaceAll(example, "/etc/codehub/", dir+"/")
	config := new(caddy.Config)
	if err := json.Unmarshal([]byte(adapt(t, example)), config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
	if formatted := string(caddyfile.Format([]byte(example))); formatted != example {
		t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
	}
}

// withKubernetes returns the example, in which the comment about Kubernetes has become a block.
func withKubernetes(t *testing.T) string {
	t.Helper()
	before, rest, _ := strings.Cut(string(readExample(t)), "\t\t# backend kubernetes {\n")
	block, after, found := strings.Cut(rest, "\t\t# }\n")
	if !found {
		t.Fatal("the example shows no backend kubernetes")
	}
	block = regexp.MustCompile(`(?m)^\t\t# `).ReplaceAllString(block, "\t\t")
	return before + "\t\tbackend kubernetes {\n" + block + "\t\t}\n" + after
}

func TestExampleIsFormatted(t *testing.T) {
	example := readExample(t)
	if formatted := caddyfile.Format(example); !bytes.Equal(formatted, example) {
		t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
	}
}

// TestKoreanHasOneWordForArchives: pages, explanations and documents all use the same Korean word for archives.
func TestKoreanHasOneWordForArchives(t *testing.T) {
	said := 0
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case d.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".js", ".json", ".html", ".md"}, filepath.Ext(path)):
			return nil
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("아카이브")) {
			t.Errorf("%s: an archive is 보관본, and to archive is 보관하다", path)
		}
		said += bytes.Count(text, []byte("보관본"))
		return err
	})
	if err != nil || said < 50 {
		t.Errorf("%d archives were found, %v", said, err)
	}
}

// TestExampleAgreesWithTheSettings: the example shows every setting, with the default that it really has.
func TestExampleAgreesWithTheSettings(t *testing.T) {
	shown := exampleOptions(t)
	for name, s := range allSettings() {
		o, ok := shown[name]
		if !ok {
			t.Errorf("the example does not show %q", name)
			continue
		}
		stated := o.value
		if o.variable != "" {
			_, stated, _ = strings.Cut(o.comment, "Default: ")
			stated, _, _ = strings.Cut(stated, " ")
			stated = strings.TrimSuffix(stated, ",")
			if o.value != "" && !sameValue(o.value, s.Default) {
				t.Errorf("%s: the placeholder's default is %q, the setting's %q", name, o.value, s.Default)
			}
		}
		switch {
		case s.Remedy != "" && !strings.HasSuffix(o.comment, "Required."):
			t.Errorf("%s: the example does not say that it is required", name)
		case s.Default != "" && !sameValue(stated, s.Default) && o.comment != "As above.":
			t.Errorf("%s: the example says that the default is %q; it is %q", name, stated, s.Default)
		}
	}
	for _, name := range []string{"app database", "app redis", "app admin_password", "app s3 access_key", "app s3 secret_key"} {
		if o := shown[name]; !strings.HasPrefix(o.text, "{env.") {
			t.Errorf("%s is stored with the configuration: %s", name, o.text)
		}
	}
	// These are the names that the original requirements prescribe (SPEC 10).
	variables := exampleVariables(t)
	for _, name := range []string{
		"COORDINATOR_NODE_ID", "COORDINATOR_LOCK_ID", "COORDINATOR_RETRY_INTERVAL", "COORDINATOR_IDLE_INTERVAL",
		"COORDINATOR_ACTIVE_INTERVAL", "COORDINATOR_TTL_INTERVAL", "COORDINATOR_GC_INTERVAL", "TTL_STANDBY_SECONDS", "TTL_DOZE_SECONDS",
		"TTL_ARCHIVE_SECONDS", "ACTIVITY_FLUSH_INTERVAL", "LIMITS_MAX_RUNNING_PER_USER", "LIMITS_MAX_RUNNING_GLOBAL",
		"LIMITS_MAX_DOZING_PER_USER", "LIMITS_MAX_DOZING_GLOBAL",
		"COORDINATOR_SHARDS", "REDIS_CHANNEL_SSE_PREFIX", "REDIS_CHANNEL_WAKE_PREFIX", "SSE_HEARTBEAT_INTERVAL",
	} {
		if _, ok := variables[name]; !ok {
			t.Errorf("the example does not read %s", name)
		}
	}
}

// allSettings returns the settings of all modules, by module and name. It leaves out the settings of a directive that
// override a setting of the app.
func allSettings() map[string]settings.Setting {
	all := make(map[string]settings.Setting)
	for _, s := range new(App).Table(new(settings.Resolved)) {
		all["app "+s.Name] = s
	}
	for _, s := range append(new(API).table(), new(Gateway).table()...) {
		if _, overrides := all["app "+s.Name]; !overrides {
			all["codehub "+s.Name] = s
		}
	}
	return all
}

// exampleOption is an option of the example. It consists of its text, the comment above it, and the variable that it
// reads, if any. Otherwise it has the literal value or the placeholder's default.
type exampleOption struct{ text, variable, value, comment string }

var placeholder = regexp.MustCompile(`\{(?:env\.|\$)([A-Z0-9_]+)(?::([^}]*))?\}`)

// exampleOptions returns the options of the example.
func exampleOptions(t *testing.T) map[string]exampleOption {
	t.Helper()
	return optionsOf(withKubernetes(t))
}

// optionsOf returns the options of a Caddyfile. Each key consists of the option's blocks and its name. For options in
// the global option codehub, the key begins with "app".
func optionsOf(text string) map[string]exampleOption {
	options := make(map[string]exampleOption)
	var blocks, comment []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "#"); ok {
			comment = append(comment, strings.TrimSpace(text))
			continue
		}
		name, text, _ := strings.Cut(line, " ")
		switch {
		case line == "}":
			blocks = blocks[:len(blocks)-1]
		case line == "{":
			blocks = append(blocks, "global")
		case strings.HasSuffix(line, " {"):
			blocks = append(blocks, strings.TrimPrefix(strings.TrimSuffix(line, " {"), "backend "))
		case line != "":
			path := strings.TrimPrefix(strings.Join(append(blocks[1:len(blocks):len(blocks)], name), " "), " ")
			if blocks[0] == "global" && len(blocks) > 1 {
				path = "app" + strings.TrimPrefix(path, "codehub")
			}
			o := exampleOption{text: text, value: text, comment: strings.Join(comment, " ")}
			if m := placeholder.FindStringSubmatch(text); m != nil {
				o.variable, o.value = m[1], m[2]
			}
			options[path] = o
		}
		comment = nil
	}
	return options
}

// exampleVariables returns the variables that the example reads, with their defaults. The default is that of the
// setting or, if it has none, that of the placeholder.
func exampleVariables(t *testing.T) map[string]string {
	t.Helper()
	variables := make(map[string]string)
	for _, m := range placeholder.FindAllStringSubmatch(string(readExample(t)), -1) {
		if m[1] != "NAME" { // of the explanation at its top
			variables[m[1]] = m[2]
		}
	}
	known := allSettings()
	for name, o := range exampleOptions(t) {
		if def := known[name].Default; def != "" && o.variable != "" {
			variables[o.variable] = def
		}
	}
	return variables
}

// sameValue reports whether two texts mean the same: durations may be written in
// several ways.
func sameValue(a, b string) bool {
	if a == b {
		return true
	}
	var x, y time.Duration
	return parse.Duration(&x, 0)(a) == nil && parse.Duration(&y, 0)(b) == nil && x == y
}

// TestTheExampleBeginsWithAMinimum checks that the minimum is a valid configuration by itself.
func TestTheExampleBeginsWithAMinimum(t *testing.T) {
	var minimum strings.Builder
	lines := 0
	for line := range strings.Lines(string(readExample(t))) {
		if text, ok := strings.CutPrefix(line, "#\t"); ok {
			minimum.WriteString(text)
			lines++
		}
		if line == "{\n" {
			break
		}
	}
	if lines < 20 || lines > 35 {
		t.Errorf("the minimum has %d lines", lines)
	}
	secrets := t.TempDir()
	for name, value := range map[string]string{
		"DATABASE_URL": "postgres://codehub@db.example/codehub", "REDIS_URL": "redis://redis.example:6379/0",
		"S3_ACCESS_KEY": "key", "S3_SECRET_KEY": "secret", "CODEHUB_ADMIN_PASSWORD": "long enough a secret",
	} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := new(caddy.Config)
	text := strings.NewReplacer("tls /etc/codehub/codehub.pem /etc/codehub/codehub.key", "tls internal",
		"/etc/codehub/secrets", secrets).Replace(minimum.String())
	if err := json.Unmarshal([]byte(adapt(t, text)), config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
}

func readExample(t *testing.T) []byte {
	t.Helper()
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	return example
}
