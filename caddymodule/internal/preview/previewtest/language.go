// Package previewtest adds a made-up language to a test, as one more file: with it, and no other change,
// everything that people read must be in it. It must not be imported by the product.
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

// MadeUp is the tag of the made-up language: English, each text between marks. The tag is that of artificial
// languages.
const MadeUp = "art"

// languages is where the files of the languages are, below the top of the repository.
const languages = "coordinator/words/languages/"

// marked is what the made-up language says, and neutral what is the same in every language: names.
var (
	marked  = regexp.MustCompile(`⟦[^⟦⟧]*⟧`)
	neutral = regexp.MustCompile(`CodeHub|Acme Labs|English|한국어|\bmina\b`)
)

// RunWith runs a test of the calling package once more, with the made-up language, unless this is that run.
// The file is added as the compiler sees the source, so that it is embedded like the others. source is the way
// from the package to the top of the repository. RunWith reports whether this is the run with the language.
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

// wrap puts every text below v between marks.
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

// Unspoken returns the words of a text that the made-up language has not said.
func Unspoken(text string) string {
	for marked.MatchString(text) {
		text = marked.ReplaceAllString(text, "")
	}
	if text = neutral.ReplaceAllString(text, ""); strings.ContainsFunc(text, unicode.IsLetter) {
		return strings.TrimSpace(text)
	}
	return ""
}
