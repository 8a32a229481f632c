// Package settings defines the configuration: each setting's name, text, default and remedy, in one
// table from which the Caddyfile, the JSON and every message derive. It turns the texts into
// options of the packages that they configure. It makes no connections, and must know neither Caddy
// modules nor requests.
package settings

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Setting joins the text of a setting with its meaning. Every module lists its settings in a table,
// which serves the Caddyfile, the JSON configuration, the messages and the tests of the
// documentation.
type Setting struct {
	// Name is the section and option in the Caddyfile.
	Name string
	Text *Value
	// Default is used when the text is empty. A setting without one and with a remedy is
	// required.
	Default string
	Remedy  string
	Parse   parse.Parser
}

// Resolve replaces the placeholders, fills in defaults and parses every setting. It reports all
// errors at once, and performs no I/O except reading files named by placeholders.
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
