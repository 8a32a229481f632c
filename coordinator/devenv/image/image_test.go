package image

import (
	"os"
	"strings"
	"testing"
)

func TestReadBuild(t *testing.T) {
	id, err := readBuild(strings.NewReader(`{"stream":"Step 1/2"}` + "\n" + `{"aux":{"ID":"sha256:abc"}}` + "\n" + `{"stream":"done"}`))
	if err != nil || id != "sha256:abc" {
		t.Errorf("a good build: %q, %v", id, err)
	}
	for _, text := range []string{`{"stream":"Step 1/2"}{"error":"no space left"}`, `{"stream":`, `{"stream":"done"}`} {
		if id, err := readBuild(strings.NewReader(text)); err == nil {
			t.Errorf("%s is no error, but image %q", text, id)
		}
	}
}

func TestRootIsFoundFromBelowAndNowhereElse(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/xcaddy.json"); err != nil {
		t.Errorf("%s is not the repository: %v", root, err)
	}
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil {
		t.Errorf("found %s from outside", root)
	}
}
