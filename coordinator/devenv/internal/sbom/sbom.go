// Package sbom lists the modules of this repository's programs. It makes a software bill of materials in CycloneDX's
// JSON, with the licence of each module, collects the texts of the licences, and knows which licences are allowed.
package sbom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/storagejob/contract"
)

// Allowed are the licences of modules that may be linked into a program: they require that their text is kept, and
// nothing from people who use or change the program.
var Allowed = []string{"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "Unlicense", "Zlib"}

// exceptions are additional licences of a module for files that are not linked.
var exceptions = map[string]string{
	"github.com/alecthomas/chroma/v2":     "OFL-1.1",      // a font for SVG
	"github.com/opencontainers/go-digest": "CC-BY-SA-4.0", // its documents
}

// Of returns the bill of materials of a program that was built from the repository in root, and the texts of its
// licences, which are shipped with the program. For the same program it returns the same ones. It downloads nothing,
// because the modules are still where the build found them.
func Of(ctx context.Context, root, program, name string) (bill, licences []byte, err error) {
	tool, err := server.BuildSBOM(ctx)
	if err != nil {
		return nil, nil, err
	}
	dir, err := os.MkdirTemp("", "codehub-sbom-")
	if err != nil {
		return nil, nil, fmt.Errorf("making a folder for the licences of %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	texts := filepath.Join(dir, "licences")
	cmd := exec.CommandContext(ctx, tool, program, name, contract.Release, filepath.Join(root, "LICENSE"), texts)
	var said bytes.Buffer
	cmd.Stderr = &said
	if bill, err = cmd.Output(); err != nil {
		return nil, nil, fmt.Errorf("making the bill of materials of %s: %w\n%s", name, err, said.String())
	}
	licences, err = os.ReadFile(texts)
	return bill, licences, err
}

// component is a module in a bill of materials.
type component struct {
	Name, Version string
	Licenses      []struct{ License struct{ ID string } }
}

// Check returns an error that names every module of a bill of materials whose licence is not known or not allowed.
func Check(bill []byte) error {
	var b struct{ Components []component }
	if err := json.Unmarshal(bill, &b); err != nil {
		return fmt.Errorf("reading the bill of materials: %w", err)
	}
	if len(b.Components) == 0 {
		return errors.New("the bill of materials is empty")
	}
	var errs []error
	for _, c := range b.Components {
		if len(c.Licenses) == 0 {
			errs = append(errs, fmt.Errorf("the licence of %s %s is not known", c.Name, c.Version))
		}
		for _, l := range c.Licenses {
			if id := l.License.ID; !slices.Contains(Allowed, id) && exceptions[c.Name] != id {
				errs = append(errs, fmt.Errorf("%s %s has the licence %s, which is not allowed", c.Name, c.Version, id))
			}
		}
	}
	return errors.Join(errs...)
}

// Table returns a line for each module: name, version and licences.
func Table(bill []byte) (string, error) {
	var b struct{ Components []component }
	if err := json.Unmarshal(bill, &b); err != nil {
		return "", fmt.Errorf("reading the bill of materials: %w", err)
	}
	var lines strings.Builder
	for _, c := range b.Components {
		var ids []string
		for _, l := range c.Licenses {
			ids = append(ids, l.License.ID)
		}
		fmt.Fprintf(&lines, "%s\t%s\t%s\n", c.Name, c.Version, strings.Join(ids, " "))
	}
	return lines.String(), nil
}
