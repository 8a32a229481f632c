package pages

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Our scripts are modules with one import or export per line. A bundle changes only these lines.
var (
	importLine = regexp.MustCompile(`(?m)^import (?:\{([^}]*)\} from )?"/assets/([a-z]+)\.js";(?: *//.*)?\n`)
	exportWord = regexp.MustCompile(`(?m)^export (?:async function|function|const|class) (\w+)`)
	anyModule  = regexp.MustCompile(`(?m)^(?:import|export)\b.*$`)
	// commentLines matches comments that fill a whole line, and comment blocks between the statements of a module.
	commentLines = regexp.MustCompile(`(?m)^ *//.*\n|^/\*\*(?s:.*?)\*/\n`)
)

// bundle returns the module name and all its imports as one script. One file is loaded as a whole
// or not at all, and compresses better than many. Each module becomes a function that returns its
// exports; it runs after its imports.
func bundle(name string) ([]byte, error) {
	var out bytes.Buffer
	if err := addModule(&out, strings.TrimSuffix(name, ".js"), new([]string), nil); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// addModule appends a module after its imports, unless it has been appended already. Importers are the modules that
// wait for it.
func addModule(out *bytes.Buffer, module string, done *[]string, importers []string) error {
	if slices.Contains(importers, module) {
		return fmt.Errorf("the scripts import one another in a circle: %s, %s", strings.Join(importers, ", "), module)
	}
	if slices.Contains(*done, module) {
		return nil
	}
	text, err := content(module + ".js")
	if err != nil {
		return fmt.Errorf("reading an embedded script: %w", err)
	}
	for _, m := range importLine.FindAllSubmatch(text, -1) {
		if err := addModule(out, string(m[2]), done, append(importers, module)); err != nil {
			return err
		}
	}
	*done = append(*done, module)
	body := importLine.ReplaceAllFunc(text, func(line []byte) []byte {
		m := importLine.FindSubmatch(line)
		if len(m[1]) == 0 {
			return nil
		}
		return fmt.Appendf(nil, "const {%s} = $%s;\n", m[1], m[2])
	})
	var exports []string
	for _, m := range exportWord.FindAllSubmatch(body, -1) {
		exports = append(exports, string(m[1]))
	}
	body = exportWord.ReplaceAllFunc(body, func(words []byte) []byte { return bytes.TrimPrefix(words, []byte("export ")) })
	body = commentLines.ReplaceAll(body, nil)
	if left := anyModule.Find(body); left != nil {
		return fmt.Errorf("%s.js: a bundle cannot have %q: write one import or export of names per line", module, left)
	}
	fmt.Fprintf(out, "const $%s = (() => {\n%sreturn {%s};\n})();\n", module, body, strings.Join(exports, ", "))
	return nil
}
