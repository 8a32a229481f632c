package auth

import "slices"

// Scope is a part of a user's rights that a personal access token has (SPEC 11).
type Scope string

// The scopes.
const (
	// ScopeRead reads everything of the API.
	ScopeRead Scope = "read"
	// ScopeWrite changes the user's workspaces, and includes [ScopeRead].
	ScopeWrite Scope = "write"
	// ScopeWorkspace reaches the applications of the user's workspaces.
	ScopeWorkspace Scope = "workspace"
	// ScopeAdmin gives an administrator's rights, if the user has them at that moment.
	ScopeAdmin Scope = "admin"
	// NoScope stands for what only people who are signed in may do. No token has it.
	NoScope Scope = ""
)

// Scopes lists every scope that a token can have.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeWorkspace, ScopeAdmin} }

// scopes is a set of scopes; the empty one is that of a sign-in, which no scope bounds.
type scopes uint8

// ofToken is in the set of every access token, whose scopes may all be unknown to this release.
const ofToken scopes = 1 << 7

// bitOf returns the bit of a scope, and 0 for an unknown one.
func bitOf(s Scope) scopes {
	if i := slices.Index(Scopes(), s); i >= 0 {
		return 1 << i
	}
	return 0
}

// scopesOf returns the set of stored scopes; nil is a sign-in.
func scopesOf(stored []string) (set scopes) {
	if stored == nil {
		return 0
	}
	set = ofToken
	for _, s := range stored {
		set |= bitOf(Scope(s))
	}
	if set&bitOf(ScopeWrite) != 0 {
		set |= bitOf(ScopeRead)
	}
	return set
}

// has reports whether the scope is in the set.
func (set scopes) has(s Scope) bool { return set&bitOf(s) != 0 }

// ScopeError refuses a request with an access token that does not have the scope.
type ScopeError struct {
	// Needs is the scope, [NoScope] for what no token may do.
	Needs Scope
	// Of is what the token lets in otherwise, for the audit; zero where that is not known.
	Of Grant
}

// Error implements error.
func (e *ScopeError) Error() string {
	if e.Needs == NoScope {
		return "access tokens may not do this"
	}
	return "the access token does not have the scope " + string(e.Needs)
}
