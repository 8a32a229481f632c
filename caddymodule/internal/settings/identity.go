package settings

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Identity takes the signed-in user from an authentication handler that runs before ours, such as
// basic_auth or forward_auth, on the main site and on the workspaces' hosts. CodeHub's own sign-in
// is off then.
type Identity struct {
	// User is the placeholder with the user's name: `{http.auth.user.id}` for basic_auth and other
	// authentication handlers, `{http.reverse_proxy.header.Remote-User}` for an answer of
	// forward_auth. Placeholders that clients can set are refused. This name identifies the user,
	// regardless of case. Default: people sign in here.
	User Value `json:"user,omitempty"`
	// CreateUsers creates a user the first time the authentication names it. Default: false.
	CreateUsers Value `json:"create_users,omitempty"`
	// SignOut is the address where people sign out of that authentication. Default: the dashboard
	// has no sign-out.
	SignOut Value `json:"sign_out,omitempty"`
}

// ResolvedIdentity holds these settings after their placeholders were replaced.
type ResolvedIdentity struct {
	Placeholder string // without braces; empty: our own sessions
	CreateUsers bool
	SignOut     string
}

// identityTable lists the settings of an authentication that runs before ours.
func (a *App) identityTable(r *Resolved) []Setting {
	o, i := &a.Identity, &r.Identity
	return []Setting{
		{"identity user", &o.User, "", "", namePlaceholder(&i.Placeholder)},
		{"identity create_users", &o.CreateUsers, "false", "", parse.Bool(&i.CreateUsers)},
		{"identity sign_out", &o.SignOut, "", "", parse.Text(&i.SignOut, checkSignOut)},
	}
}

// requestSettings are the settings whose placeholders are replaced per request.
var requestSettings = map[string]bool{"identity user": true}

// resolve replaces the placeholders of a setting, unless they are replaced per request.
func (s Setting) resolve(repl *caddy.Replacer) (string, error) {
	if text := string(*s.Text); requestSettings[s.Name] && !strings.HasPrefix(text, "{env.") {
		return strings.TrimSpace(text), nil
	}
	return s.Text.resolve(repl)
}

// namePlaceholder reads the placeholder with the user's name.
func namePlaceholder(dst *string) parse.Parser {
	return func(s string) error {
		key := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
		switch {
		case strings.ContainsAny(key, "{} ") || !strings.HasPrefix(key, "http."):
			return fmt.Errorf("%q is not one placeholder of requests: write {http.auth.user.id} after basic_auth, "+
				"{http.reverse_proxy.header.Remote-User} after forward_auth", s)
		case strings.HasPrefix(key, "http.request.") && !strings.HasPrefix(key, "http.request.tls.client."):
			return fmt.Errorf("%q is what clients send, so a client could name any user: after forward_auth write "+
				"{http.reverse_proxy.header.NAME}, which only its answer sets", s)
		}
		*dst = key
		return nil
	}
}

// checkSignOut returns an error that says what to write when s is not an address.
func checkSignOut(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%q is not an address: write for example https://auth.example.com/logout", s)
	}
	return nil
}

// validateIdentity checks settings that depend on one another.
func (r *Resolved) validateIdentity() error {
	if r.Identity.Placeholder != "" && r.OIDC.Issuer != "" {
		return errors.New(`setting "identity user": the oidc block is another way to sign in: remove one`)
	}
	return nil
}
