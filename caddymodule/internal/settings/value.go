package settings

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// Value is a setting as it is written: a literal, or text with Caddy
// placeholders such as `{env.NAME}` and `{file./path}`, which are replaced when
// the configuration is provisioned and never stored. A placeholder that turns out
// empty, because its variable is not set, means the default. In JSON a Value is a
// string; numbers and booleans are accepted too.
type Value string

// UnmarshalJSON accepts a string, a number or a boolean.
func (v *Value) UnmarshalJSON(b []byte) error {
	var any any
	if err := json.Unmarshal(b, &any); err != nil {
		return err
	}
	switch x := any.(type) {
	case string:
		*v = Value(x)
	case nil:
		*v = ""
	case float64, bool:
		*v = Value(b)
	default:
		return fmt.Errorf("want a string, a number or a boolean, not %s", b)
	}
	return nil
}

// literal reports whether the value holds no placeholder, so that it can be checked
// while the Caddyfile is read.
func (v Value) literal() bool { return !strings.ContainsAny(string(v), "{}") }

// resolve replaces the placeholders. An unknown placeholder is an error: it is a
// misspelling, and must not silently become the default.
func (v Value) resolve(repl *caddy.Replacer) (string, error) {
	s, err := repl.ReplaceOrErr(string(v), false, true)
	if err != nil {
		return "", fmt.Errorf("%w: write {env.NAME} for an environment variable or {file./path} for a file", err)
	}
	return strings.TrimSpace(s), nil
}
