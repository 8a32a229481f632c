package settings

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Value is the text of a setting: a literal, or text with Caddy placeholders such as `{env.NAME}`
// and `{file./path}`, which are replaced when the configuration is provisioned and never stored. A
// placeholder that is empty because its variable is not set means the default. A variable may in
// turn name a file, as `{file./path}`: unlike the variable, the file is read again by each reload.
// In JSON a Value is a string; numbers and booleans are accepted too.
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

// resolve replaces the placeholders. An unknown placeholder is an error: it is a misspelling, and
// must not silently become the default. An unreadable file is an error, too; Caddy itself treats it
// as empty.
func (v Value) resolve(repl *caddy.Replacer) (string, error) {
	text, named, err := parse.File(string(v))
	if named || err != nil {
		return text, err
	}
	if text, err = repl.ReplaceOrErr(text, false, true); err != nil {
		return "", fmt.Errorf("%w: write {env.NAME} for an environment variable or {file./path} for a file", err)
	}
	text, _, err = parse.File(strings.TrimSpace(text))
	return text, err
}
