package codehub

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// optionParser reads blocks of options with one value each, and collects errors
// instead of stopping at the first.
type optionParser struct {
	d        *caddyfile.Dispenser
	what     string // the directive or global option
	settings map[string]setting
	sections map[string][]string // options by section, in order; "" is the top
	seen     map[string]bool
	errs     []error
}

func newOptionParser(d *caddyfile.Dispenser, what string, table []setting) *optionParser {
	p := &optionParser{
		d: d, what: what,
		settings: make(map[string]setting),
		sections: make(map[string][]string),
		seen:     make(map[string]bool),
	}
	for _, s := range table {
		p.settings[s.name] = s
		section, option, ok := strings.Cut(s.name, " ")
		if !ok {
			section, option = "", section
		} else if len(p.sections[section]) == 0 {
			p.sections[""] = append(p.sections[""], section)
		}
		p.sections[section] = append(p.sections[section], option)
	}
	return p
}

// read reads the directive, whose name is the next token: no arguments and one block.
func (p *optionParser) read() error {
	p.d.Next()
	if p.d.NextArg() {
		return p.d.Errf("%s takes no argument, only a block: remove %q", p.what, p.d.Val())
	}
	p.block("")
	return errors.Join(p.errs...)
}

// block reads the block that follows, for one section.
func (p *optionParser) block(section string) {
	d := p.d
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := strings.TrimSpace(section + " " + d.Val())
		_, isSection := p.sections[name]
		switch _, isOption := p.settings[name]; {
		case isOption:
			p.option(name)
		case isSection && section == "" && name != "":
			if d.NextArg() {
				p.errf("%s %s takes no argument, only a block: remove %q", p.what, name, d.Val())
				d.RemainingArgs()
			}
			p.block(name)
		default:
			p.errf("%s has no option %q: write one of %s",
				strings.TrimSpace(p.what+" "+section), d.Val(), strings.Join(p.sections[section], ", "))
			d.RemainingArgs()
			for inner := d.Nesting(); d.NextBlock(inner); { // skip its block
			}
		}
	}
}

// option reads the values of an option, which must be one, and returns how many there
// are. A literal is checked at once, because here the line is known.
func (p *optionParser) option(name string) int {
	s, args := p.settings[name], p.d.RemainingArgs()
	switch {
	case len(args) != 1:
		p.errf("%s %s takes exactly one value, not %d", p.what, name, len(args))
		return len(args)
	case p.seen[name]:
		p.errf("%s %s is given twice: remove one", p.what, name)
		return 1
	}
	p.seen[name] = true
	*s.text = Value(args[0])
	if s.text.literal() && args[0] != "" {
		if err := s.parse(args[0]); err != nil {
			p.errf("%s %s: %w", p.what, name, err)
		}
	}
	return 1
}

// errf adds an error with the present line.
func (p *optionParser) errf(format string, args ...any) {
	p.errs = append(p.errs, p.d.Errf(format, args...))
}
