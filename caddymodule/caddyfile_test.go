package codehub

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var updateGolden = flag.Bool("update", false, "write the results of the Caddyfiles in testdata/adapt instead of comparing them")

// separator is the line between a Caddyfile and the result that it must have: its JSON, or an error.
const separator = "----------"

// TestAdapt compares every Caddyfile in testdata/adapt with the JSON that it must
// become, or with the error that it must cause.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(content), separator+"\n")
			got := adapt(t, input)
			if *updateGolden {
				if err := os.WriteFile(file, []byte(input+separator+"\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if formatted := caddyfile.Format([]byte(input)); string(formatted) != input {
				t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
			}
		})
	}
}

// adapt returns a Caddyfile's JSON, indented, or its error.
func adapt(t *testing.T, input string) string {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	if err != nil {
		return err.Error() + "\n"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}
