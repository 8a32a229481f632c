package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// topLevel is what the repository's top level may hold besides dot-files. `caddy` is
// what `make build` makes.
var topLevel = []string{
	"caddymodule", "coordinator", "storagejob",
	"xcaddy.json", "Caddyfile.example", "go.mod", "go.sum", "Makefile",
	"README.md", "README.ko.md", "LICENSE", "CHANGELOG.md",
	"caddy",
}

// checkLayout returns an error that names what should not be at the top level.
func checkLayout(root string) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("listing the top level: %w", err)
	}
	var strange []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(topLevel, e.Name()) {
			strange = append(strange, e.Name())
		}
	}
	if len(strange) > 0 {
		return fmt.Errorf("the top level of the repository may not hold %s: move it into a folder that is there, or delete it",
			strings.Join(strange, ", "))
	}
	return nil
}
