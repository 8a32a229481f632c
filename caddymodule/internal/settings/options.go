package settings

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// OptionParser reads blocks of options with one value each, and collects errors
// instead of stopping at the first.
type OptionParser struct {
	d        *caddyfile.Dispenser
	what     string // the directive or global option
	settings map[string]Setting
	sections map[string][]string            // options by section, in order; "" is the top
	blocks   map[string]func(*OptionParser) // that are not sections of options
	seen     map[string]bool
	removed  map[string]string // settings and blocks of earlier releases
	errs     []error
	warnings []string // about removed settings
}

// NewOptionParser returns a parser for a directive or global option. what is its name, and table holds the settings
// that are its options.
func NewOptionParser(d *caddyfile.Dispenser, what string, table []Setting) *OptionParser {
	p := &OptionParser{
		d: d, what: what,
		settings: make(map[string]Setting),
		sections: make(map[string][]string),
		blocks:   make(map[string]func(*OptionParser)),
		seen:     make(map[string]bool),
	}
	for _, s := range table {
		p.settings[s.Name] = s
		section, option, ok := strings.Cut(s.Name, " ")
		if !ok {
			section, option = "", section
		} else if len(p.sections[section]) == 0 {
			p.sections[""] = append(p.sections[""], section)
		}
		p.sections[section] = append(p.sections[section], option)
	}
	return p
}

// custom lets a function read the top-level block of that name. The sections are then accepted only as part of that
// block.
func (p *OptionParser) custom(name string, read func(*OptionParser), sections ...string) {
	p.blocks[name] = read
	top := slices.DeleteFunc(p.sections[""], func(s string) bool { return slices.Contains(sections, s) })
	p.sections[""] = append(top, name)
}

// Read reads the directive, whose name is the next token: no arguments and one block.
func (p *OptionParser) Read() error {
	p.d.Next()
	if p.d.NextArg() {
		return p.d.Errf("%s takes no argument, only a block: remove %q", p.what, p.d.Val())
	}
	p.block("")
	return p.Err()
}

// Err returns all errors so far.
func (p *OptionParser) Err() error { return errors.Join(p.errs...) }

// Knows reports whether the table has an option of that name.
func (p *OptionParser) Knows(name string) bool {
	_, ok := p.settings[name]
	return ok
}

// block reads the block that follows, for one section.
func (p *OptionParser) block(section string) {
	d := p.d
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := strings.TrimSpace(section + " " + d.Val())
		_, isSection := p.sections[name]
		switch _, isOption := p.settings[name]; {
		case isOption:
			p.Option(name)
		case p.blocks[name] != nil:
			p.blocks[name](p)
		case isSection && slices.Contains(p.sections[""], name):
			if d.NextArg() {
				p.Errorf("%s %s takes no argument, only a block: remove %q", p.what, name, d.Val())
				d.RemainingArgs()
			}
			p.block(name)
		case p.removed[name] != "":
			d.RemainingArgs()
			p.warnings = append(p.warnings, fmt.Sprintf("%s, at %s:%d", warning(name, p.removed[name]), d.File(), d.Line()))
			p.skip()
		default:
			p.Errorf("%s has no option %q: write one of %s",
				strings.TrimSpace(p.what+" "+section), d.Val(), strings.Join(p.sections[section], ", "))
			d.RemainingArgs()
			p.skip()
		}
	}
}

// skip skips the block that follows.
func (p *OptionParser) skip() {
	for nesting := p.d.Nesting(); p.d.NextBlock(nesting); {
	}
}

// Option reads the value of an option, which must have exactly one, and returns how many it has. A literal is checked
// here, where the line is known.
func (p *OptionParser) Option(name string) int {
	s, args := p.settings[name], p.d.RemainingArgs()
	if listSettings[name] && len(args) > 1 {
		args = []string{strings.Join(args, " ")}
	}
	switch {
	case len(args) != 1:
		p.Errorf("%s %s takes exactly one value, not %d", p.what, name, len(args))
		return len(args)
	case p.seen[name]:
		p.Errorf("%s %s is given twice: remove one", p.what, name)
		return 1
	}
	p.seen[name] = true
	*s.Text = Value(args[0])
	if s.Text.literal() && args[0] != "" {
		if err := s.Parse(args[0]); err != nil {
			p.Errorf("%s %s: %w", p.what, name, err)
		}
	}
	return 1
}

// Errorf adds an error with the current line.
func (p *OptionParser) Errorf(format string, args ...any) {
	p.errs = append(p.errs, p.d.Errf(format, args...))
}
