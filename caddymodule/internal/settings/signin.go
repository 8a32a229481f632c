package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Defaults that fit most providers.
const (
	defaultScopes        = "profile"
	defaultUsernameClaim = "preferred_username"
	defaultGroupsClaim   = "groups"
)

// SignIn sets how people sign in.
type SignIn struct {
	// Password allows signing in with a password. Turn it off to rely on an identity provider
	// alone. Default: true.
	Password Value `json:"password,omitempty"`
	// ExemptNetworks are networks, such as `203.0.113.0/24`, shared by many people who trust each other: wrong
	// passwords from such a network do not slow down its other users. Wrong passwords for a single account are still
	// limited. Default: none.
	ExemptNetworks Value `json:"exempt_networks,omitempty"`
}

// OIDC is an OpenID Connect provider through which people may sign in.
type OIDC struct {
	// Issuer is the provider's address, such as `https://id.example.com/realms/main`.
	// Register `https://<main host>/auth/oidc/callback` there as the redirect address, and
	// `https://<main host>/auth/oidc/backchannel-logout` for logouts if it offers that.
	// Default: there is no provider.
	Issuer Value `json:"issuer,omitempty"`
	// ClientID is the id under which the provider knows this installation.
	ClientID Value `json:"client_id,omitempty"`
	// ClientSecret is the secret that belongs to it, empty for a public client. Write it as
	// a placeholder, `{env.OIDC_CLIENT_SECRET}`.
	ClientSecret Value `json:"client_secret,omitempty"`
	// Scopes are requested besides openid, separated by commas. Default: `profile`.
	Scopes Value `json:"scopes,omitempty"`
	// UsernameClaim is the claim that names a new user. It does not identify the user: the
	// provider's subject does. Default: `preferred_username`.
	UsernameClaim Value `json:"username_claim,omitempty"`
	// GroupsClaim is the claim with the groups, a list of strings or one string. Default: `groups`.
	GroupsClaim Value `json:"groups_claim,omitempty"`
	// AdminGroups are the groups whose members are administrators, separated by commas. Each
	// sign-in updates the role from the groups. Default: none, and `caddy codehub user` sets roles.
	AdminGroups Value `json:"admin_groups,omitempty"`
	// AllowedGroups are the groups, besides those of administrators, whose members may sign in,
	// separated by commas. Default: all users of the provider.
	AllowedGroups Value `json:"allowed_groups,omitempty"`
	// CreateUsers creates users when they sign in for the first time. Default: true.
	CreateUsers Value `json:"create_users,omitempty"`
}

// signInTable lists the settings of the sign-in.
func (a *App) signInTable(r *Resolved) []Setting {
	o, s := &a.OIDC, &r.OIDC
	return []Setting{
		{"sign_in password", &a.SignIn.Password, "true", "", parse.Bool(&r.Passwords)},
		{"sign_in exempt_networks", &a.SignIn.ExemptNetworks, "", "", networks(&r.Live.SignInExempt)},
		{"oidc issuer", &o.Issuer, "", "", parse.Text(&s.Issuer)},
		{"oidc client_id", &o.ClientID, "", "", parse.Text(&s.ClientID)},
		{"oidc client_secret", &o.ClientSecret, "", "", parse.Text(&s.ClientSecret)},
		{"oidc scopes", &o.Scopes, defaultScopes, "", list(&s.Scopes)},
		{"oidc username_claim", &o.UsernameClaim, defaultUsernameClaim, "", parse.Text(&s.UsernameClaim)},
		{"oidc groups_claim", &o.GroupsClaim, defaultGroupsClaim, "", parse.Text(&s.GroupsClaim)},
		{"oidc admin_groups", &o.AdminGroups, "", "", list(&s.AdminGroups)},
		{"oidc allowed_groups", &o.AllowedGroups, "", "", list(&s.AllowedGroups)},
		{"oidc create_users", &o.CreateUsers, "true", "", parse.Bool(&s.CreateUsers)},
	}
}

// list reads texts separated by commas.
func list(dst *[]string) parse.Parser {
	return func(s string) error {
		*dst = slices.DeleteFunc(strings.Split(s, ","), func(item string) bool { return strings.TrimSpace(item) == "" })
		for i, item := range *dst {
			(*dst)[i] = strings.TrimSpace(item)
		}
		return nil
	}
}

// networks reads addresses and networks separated by spaces or commas.
func networks(dst *[]netip.Prefix) parse.Parser {
	return func(s string) error {
		*dst = nil
		for _, word := range strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == ',' }) {
			p, err := netip.ParsePrefix(word)
			if a, ofAddress := netip.ParseAddr(word); ofAddress == nil {
				p, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("%q is no network: write addresses such as 203.0.113.7, or networks such as 203.0.113.0/24", word)
			}
			*dst = append(*dst, p.Masked())
		}
		return nil
	}
}

// validateSignIn checks settings that depend on one another.
func (r *Resolved) validateSignIn() error {
	if !r.Passwords && r.OIDC.Issuer == "" {
		return errors.New(`setting "sign_in password": no way to sign in is left: leave it on, or write an oidc block`)
	}
	return r.OIDC.Validate()
}
