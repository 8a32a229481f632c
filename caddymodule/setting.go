package codehub

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/parse"
)

// setting joins the text of a setting with its meaning. Every module lists its own in
// a method table, which serves the Caddyfile, the JSON configuration, the messages and
// the tests of the documentation.
type setting struct {
	// name is how people write it: section and option of the Caddyfile.
	name string
	text *Value
	// def is used when the text is empty. A setting without one and with a remedy is
	// required.
	def    string
	remedy string
	parse  parse.Parser
}

// resolveAll replaces the placeholders, fills in defaults and parses every setting. It
// reports everything that is wrong at once, and performs no I/O but reading files
// named by placeholders.
func resolveAll(table []setting, repl *caddy.Replacer) error {
	var errs []error
	for _, s := range table {
		text, err := s.resolve(repl)
		if err == nil {
			if text == "" {
				text = s.def
			}
			switch {
			case text != "":
				err = s.parse(text)
			case s.remedy != "":
				err = errors.New("is required: " + s.remedy)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("setting %q: %w", s.name, err))
		}
	}
	return errors.Join(errs...)
}
