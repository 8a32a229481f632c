package docs_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"sigs.k8s.io/yaml"
)

// checks says how the blocks of a language are held against the product. What runs them for real
// is named in the comment.
var checks = map[string]func(*testing.T, block){
	"":           drawing,
	"sh":         commands, // e2e runs those of api.md and cli.md; storagejob those of "Opening an archive" in backups.md
	"caddyfile":  configuration,
	"yaml":       values,
	"python":     nothing, // e2e runs the program of api.md
	"ini":        nothing, // a unit of systemd, which is not here
	"dockerfile": nothing, // it begins with an image of a registry
}

// TestBlocks holds every block against the product.
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

// drawing is a picture in letters, or a part of a Caddyfile that stands for itself: no command may hide there.
func drawing(t *testing.T, b block) {
	if regexp.MustCompile(`(?m)^\s*(\./)?(caddy|curl|kubectl|helm|make) `).MatchString(b.text) {
		t.Errorf("%s: write `sh` where commands begin:\n%s", b.document, b.text)
	}
}

// configuration adapts a Caddyfile as Caddy does.
func configuration(t *testing.T, b block) {
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(b.text), nil)
	if err != nil || !json.Valid(config) {
		t.Errorf("%s: %v\n%s", b.document, err, b.text)
	}
	for _, w := range warnings {
		t.Errorf("%s: %s\n%s", b.document, w, b.text)
	}
	if formatted := caddyfile.Format([]byte(b.text)); string(formatted) != b.text {
		t.Errorf("%s: not formatted; `caddy fmt` gives:\n%s", b.document, formatted)
	}
}

// values are those of the Helm chart, whose own tests hold what is possible there against the settings.
func values(t *testing.T, b block) {
	var found map[string]any
	if err := yaml.UnmarshalStrict([]byte(b.text), &found); err != nil {
		t.Errorf("%s: %v\n%s", b.document, err, b.text)
	}
	for name := range found {
		if !slices.Contains(chartValues(t), name) {
			t.Errorf("%s: the chart has no value %s", b.document, name)
		}
	}
}
