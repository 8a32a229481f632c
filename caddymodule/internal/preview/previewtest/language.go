// Package previewtest adds a made-up language to a test, as one more file. With this file and no other change,
// everything that people read must be in that language. The product must not import it.
package previewtest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/codehub/gateway/coordinator/words"
)

// MadeUp is the tag of the made-up language, which is English with marks around each text. The tag is that of
// artificial languages.
const MadeUp = "art"

// languages is the folder of the languages' files, below the root of the repository.
const languages = "coordinator/words/languages/"

// marked matches a text of the made-up language. neutral matches names, which are the same in every language.
var (
	marked  = regexp.MustCompile(`⟦[^⟦⟧]*⟧`)
	neutral = regexp.MustCompile(`CodeHub|Acme Labs|English|한국어|\bmina\b`)
)

// RunWith runs a test of the calling package again with the made-up language, unless this already is that run. An
// overlay adds the file to the source that the compiler sees, so it is embedded like the others. source is the path
// from the package to the root of the repository. RunWith reports whether this is the run with the language.
func RunWith(t *testing.T, source, test string) bool {
	t.Helper()
	if words.Known(MadeUp) {
		return true
	}
	english, err := os.ReadFile(filepath.Join(source, languages, "en.json"))
	if err != nil {
		t.Fatal(err)
	}
	var texts map[string]any
	if err := json.Unmarshal(english, &texts); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file, overlay := filepath.Join(dir, MadeUp+".json"), filepath.Join(dir, "overlay.json")
	write := func(path string, v any) {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(file, wrap(texts))
	write(overlay, map[string]any{"Replace": map[string]string{filepath.Join(root, languages, MadeUp+".json"): file}})
	limit := time.Duration(0)
	if end, limited := t.Deadline(); limited {
		limit = time.Until(end)
	}
	run := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-timeout", limit.String(), "-overlay", overlay, "-run", test, "-v", ".")
	out, err := run.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("with one more language: %v\n%s", err, out)
	}
	return false
}

// wrap adds the marks to every text in v.
func wrap(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wrap(v[key])
		}
		return v
	default:
		return "⟦" + v.(string) + "⟧"
	}
}

// Unspoken returns the part of a text that is not in the made-up language.
func Unspoken(text string) string {
	for marked.MatchString(text) {
		text = marked.ReplaceAllString(text, "")
	}
	if text = neutral.ReplaceAllString(text, ""); strings.ContainsFunc(text, unicode.IsLetter) {
		return strings.TrimSpace(text)
	}
	return ""
}
