package docs_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"
)

// checks maps the languages of blocks to the functions that check such blocks. The comments name the tests that run the
// blocks.
var checks = map[string]func(*testing.T, block){
	"":           drawing,
	"sh":         commands, // e2e runs the blocks of api.md and cli.md; storagejob runs those of "Opening an archive" in backups.md
	"caddyfile":  configuration,
	"yaml":       values,
	"python":     nothing, // e2e runs the program of api.md
	"dockerfile": nothing, // its base image is in a registry
	"nginx":      nothing, // proxies are not part of the product
	"haproxy":    nothing,
}

// TestBlocks checks every block against the product.
func TestBlocks(t *testing.T) {
	found := make(map[string]int)
	for _, d := range guides(t) {
		for _, b := range d.blocks {
			check, ok := checks[b.language]
			if !ok {
				t.Errorf("%s: nothing checks a block of %q:\n%s", d.path, b.language, b.text)
				continue
			}
			found[b.language]++
			check(t, b)
		}
	}
	for language := range checks {
		if found[language] == 0 {
			t.Errorf("no block of %q was found", language)
		}
	}
}

func nothing(*testing.T, block) {}

// drawing checks that an ASCII drawing or an excerpt of a Caddyfile contains no command, because no test would check
// that command.
func drawing(t *testing.T, b block) {
	if regexp.MustCompile(`(?m)^\s*(\./)?(caddy|curl|kubectl|helm|make) `).MatchString(b.text) {
		t.Errorf("%s: write `sh` where commands begin:\n%s", b.document, b.text)
	}
}

// configuration checks that a Caddyfile is formatted and that Caddy accepts all of its settings.
func configuration(t *testing.T, b block) {
	if formatted := caddyfile.Format([]byte(b.text)); string(formatted) != b.text {
		t.Errorf("%s: not formatted; `caddy fmt` gives:\n%s", b.document, formatted)
	}
	for _, variable := range []string{"S3_ACCESS_KEY", "S3_SECRET_KEY", "OIDC_CLIENT_SECRET"} {
		t.Setenv(variable, "secret")
	}
	t.Setenv("DATABASE_URL", "postgres://codehub@db.example/codehub")
	t.Setenv("REDIS_URL", "redis://redis.example:6379/0")
	dir := filesOfTheGuides(t)
	text := strings.NewReplacer("/etc/caddy/", dir+"/", "/etc/codehub/", dir+"/").Replace(b.text)
	adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), nil)
	for _, w := range warnings {
		t.Errorf("%s: %s\n%s", b.document, w, b.text)
	}
	config := new(caddy.Config)
	if err == nil {
		err = json.Unmarshal(adapted, config)
	}
	if err == nil {
		err = caddy.Validate(config)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", b.document, err, b.text)
	}
}

// filesOfTheGuides returns a folder that contains the files named in the guides' Caddyfiles.
func filesOfTheGuides(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := server.TLS.Certificates[0]
	private, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"secrets/DATABASE_URL": []byte("postgres://codehub@db.example/codehub\n"), "secrets/REDIS_URL": []byte("redis://redis.example:6379/0\n"),
		"secrets/S3_ACCESS_KEY": []byte("key\n"), "secrets/S3_SECRET_KEY": []byte("secret\n"),
		"codehub.pem":    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		"codehub.key":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"old.pem":        pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}),
		"old.key":        pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		"identities.txt": []byte(identity.String() + "\n"), "recipients.txt": []byte(identity.Recipient().String() + "\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// values checks Helm values against the chart's schema. The chart's own tests check that this schema matches the
// settings.
func values(t *testing.T, b block) {
	const schema = "../deploy/chart/values.schema.json"
	compiled, err := jsonschema.NewCompiler().Compile(schema)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.YAMLToJSONStrict([]byte(b.text))
	if err != nil {
		t.Fatalf("%s: %v\n%s", b.document, err, b.text)
	}
	found, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = compiled.Validate(found)
	}
	if err != nil {
		t.Errorf("%s: %v\n%s", b.document, err, b.text)
	}
}
