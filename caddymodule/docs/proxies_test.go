package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTrustedProxiesAreStrict checks every configuration in this repository that trusts a proxy: each must ignore a
// client address that the client has made up.
func TestTrustedProxiesAreStrict(t *testing.T) {
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return fs.SkipDir
		}
		switch ext := filepath.Ext(path); {
		case d.IsDir(), ext == ".go", ext == ".json", d.Name() == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.IndexByte(string(text), 0) >= 0 {
			return err
		}
		lines := strings.Split(string(text), "\n")
		for i, line := range lines {
			if !strings.HasPrefix(strings.TrimLeft(line, "# \t"), "trusted_proxies static ") {
				continue
			}
			if found++; i+1 == len(lines) || strings.TrimSpace(lines[i+1]) != "trusted_proxies_strict" {
				t.Errorf("%s:%d trusts a proxy and is not strict", path, i+1)
			}
		}
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("%d places trust a proxy, %v", found, err)
	}
}
