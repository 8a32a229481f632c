package settings

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// FuzzCaddyfile asserts that a configuration is refused with the line of the error, or has an equivalent form
// in JSON.
func FuzzCaddyfile(f *testing.F) {
	example, err := os.ReadFile("../../../Caddyfile.example")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(example))
	for _, text := range []string{"database x", "s3 {\n}", "images {\n a {\n reference b:1\n }\n}", "egress {\n allow 10.0.0.0/8\n}", "docker {\n} backend kubernetes {\n}", "ttl {\n standby 1"} {
		f.Add("{\ncodehub {\n" + text + "\n}\n}")
	}
	f.Fuzz(func(t *testing.T, text string) {
		tokens, err := caddyfile.Tokenize([]byte(text), "Caddyfile")
		if err != nil {
			return
		}
		d := caddyfile.NewDispenser(tokens)
		for d.Next() && d.Val() != "codehub" {
		}
		if d.Val() != "codehub" {
			return
		}
		d = caddyfile.NewDispenser(d.NextSegment())
		app := new(App)
		if err := app.UnmarshalCaddyfile(d); err != nil {
			if !strings.Contains(err.Error(), "Caddyfile:") && !strings.Contains(err.Error(), "setting") {
				t.Errorf("%q is refused without a place: %v", text, err)
			}
			return
		}
		first, err := json.Marshal(app)
		if err != nil {
			t.Fatal(err)
		}
		again := new(App)
		if err := caddy.StrictUnmarshalJSON(first, again); err != nil {
			t.Fatalf("%s: %v", first, err)
		}
		if second, err := json.Marshal(again); err != nil || string(second) != string(first) {
			t.Errorf("%s\nis read as\n%s, %v", first, second, err)
		}
	})
}
