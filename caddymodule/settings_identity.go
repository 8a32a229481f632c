package codehub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/parse"
	"github.com/codehub/gateway/coordinator/auth"
)

// IdentitySettings take the signed-in user from an authentication of Caddy's that runs
// before our handlers, such as basic_auth or forward_auth, on the main site and on the
// workspaces' hosts. Then there is no sign-in of ours.
type IdentitySettings struct {
	// User is the placeholder with the user's name: `{http.auth.user.id}` for basic_auth and
	// other authentication handlers, `{http.reverse_proxy.header.Remote-User}` for an answer
	// of forward_auth. Placeholders that clients can set are refused. Users are known by this
	// name; upper and lower case are the same. Default: people sign in here.
	User Value `json:"user,omitempty"`
	// CreateUsers creates users whom the authentication names for the first time. Default:
	// false.
	CreateUsers Value `json:"create_users,omitempty"`
	// SignOut is the address where people sign out of that authentication. Default: the
	// dashboard offers no signing out.
	SignOut Value `json:"sign_out,omitempty"`
}

// identity are the settings after their placeholders were replaced.
type identity struct {
	placeholder string // without braces; empty: our own sessions
	createUsers bool
	signOut     string
}

// identityTable lists the settings of an authentication before ours.
func (a *App) identityTable(r *resolved) []setting {
	o, i := &a.Identity, &r.identity
	return []setting{
		{"identity user", &o.User, "", "", namePlaceholder(&i.placeholder)},
		{"identity create_users", &o.CreateUsers, "false", "", parse.Bool(&i.createUsers)},
		{"identity sign_out", &o.SignOut, "", "", parse.Text(&i.signOut, checkSignOut)},
	}
}

// requestSettings are the settings that are placeholders of each request.
var requestSettings = map[string]bool{"identity user": true}

// resolve replaces the placeholders of a setting, but for one that is of each request.
func (s setting) resolve(repl *caddy.Replacer) (string, error) {
	if text := string(*s.text); requestSettings[s.name] && !strings.HasPrefix(text, "{env.") {
		return strings.TrimSpace(text), nil
	}
	return s.text.resolve(repl)
}

// namePlaceholder reads the placeholder with the user's name.
func namePlaceholder(dst *string) parse.Parser {
	return func(s string) error {
		key := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
		switch {
		case strings.ContainsAny(key, "{} ") || !strings.HasPrefix(key, "http."):
			return fmt.Errorf("%q is not one placeholder of requests: write {http.auth.user.id} after basic_auth, {http.reverse_proxy.header.Remote-User} after forward_auth", s)
		case strings.HasPrefix(key, "http.request.") && !strings.HasPrefix(key, "http.request.tls.client."):
			return fmt.Errorf("%q is what clients send, so anybody could be anybody: after forward_auth write {http.reverse_proxy.header.NAME}, which only its answer sets", s)
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

// validateIdentity checks what depends on one another.
func (r *resolved) validateIdentity() error {
	if r.identity.placeholder != "" && r.oidc.Issuer != "" {
		return errors.New(`setting "identity user": the oidc block is another way to sign in: remove one`)
	}
	return nil
}

// grant returns what lets in the user whom Caddy's authentication has named.
func (i identity) grant(a *auth.Auth) func(*http.Request) (auth.Grant, error) {
	if i.placeholder == "" {
		return nil
	}
	return func(r *http.Request) (auth.Grant, error) {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		name, _ := repl.GetString(i.placeholder)
		return a.Named(r.Context(), name, i.createUsers)
	}
}

// carriesAuthorization reports whether people may sign in with the Authorization header,
// which workspaces must not see then.
func (i identity) carriesAuthorization() bool {
	return strings.HasPrefix(i.placeholder, "http.auth.user.")
}
