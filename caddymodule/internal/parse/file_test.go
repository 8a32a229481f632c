package parse_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	named := "{file." + path + "}"
	if got, is, err := parse.File(named); err == nil || !is || !strings.Contains(err.Error(), path) || got != "" {
		t.Errorf("without the file: %q, %v", got, err)
	}
	for _, content := range []string{"one", "two\n", "three\r\n", " {file./no/file}\n", ""} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, is, err := parse.File(named); err != nil || !is || got != strings.TrimSpace(content) {
			t.Errorf("%q: got %q, %v", content, got, err)
		}
	}
	for _, text := range []string{"", "secret", "{file.", "{file./a}b", "a{file./a}", "{file./a}{file./b}", "{env.A}"} {
		if got, is, err := parse.File(text); err != nil || is || got != text {
			t.Errorf("%q: got %q, %v", text, got, err)
		}
	}
}
