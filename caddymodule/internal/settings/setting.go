// Package settings is what is configured: each setting's name, text, default and remedy, in one
// table that the Caddyfile, the JSON and every message come from, and what the texts mean
// together, as options of the packages that the settings are for. It connects to nothing,
// and must not know the modules that its settings configure, nor what becomes of a request.
package settings

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Setting joins the text of a setting with its meaning. Every module lists its own in
// a table, which serves the Caddyfile, the JSON configuration, the messages and
// the tests of the documentation.
type Setting struct {
	// Name is how people write it: section and option of the Caddyfile.
	Name string
	Text *Value
	// Default is used when the text is empty. A setting without one and with a remedy is
	// required.
	Default string
	Remedy  string
	Parse   parse.Parser
}

// Resolve replaces the placeholders, fills in defaults and parses every setting. It
// reports everything that is wrong at once, and performs no I/O but reading files
// named by placeholders.
func Resolve(table []Setting, repl *caddy.Replacer) error {
	var errs []error
	for _, s := range table {
		text, err := s.resolve(repl)
		if err == nil {
			if text == "" {
				text = s.Default
			}
			switch {
			case text != "":
				err = s.Parse(text)
			case s.Remedy != "":
				err = errors.New("is required: " + s.Remedy)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %q: %w", s.Name, err))
		}
	}
	return errors.Join(errs...)
}
