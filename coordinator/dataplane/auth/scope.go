package auth

import "slices"

// Scope is a part of a user's rights that a personal access token can have (SPEC 11).
type Scope string

// The scopes.
const (
	// ScopeRead allows reading everything in the API.
	ScopeRead Scope = "read"
	// ScopeWrite allows changing the user's workspaces, and includes [ScopeRead].
	ScopeWrite Scope = "write"
	// ScopeWorkspace allows access to the applications of the user's workspaces.
	ScopeWorkspace Scope = "workspace"
	// ScopeAdmin gives an administrator's rights while the user has them.
	ScopeAdmin Scope = "admin"
	// NoScope stands for actions that only signed-in people may take. No token has it.
	NoScope Scope = ""
)

// Scopes lists every scope that a token can have.
func Scopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeWorkspace, ScopeAdmin} }

// scopes is a set of scopes. The empty set belongs to a sign-in, which no scope restricts.
type scopes uint8

// ofToken is in the set of every access token. Without it, the set of a token would be empty if this release knows none
// of the token's scopes.
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

// ScopeError refuses a request because its access token lacks a scope.
type ScopeError struct {
	// Needs is the missing scope, or [NoScope] for actions that no token may take.
	Needs Scope
	// Of is the grant of the token, for the audit. It is zero if unknown.
	Of Grant
}

// Error implements error.
func (e *ScopeError) Error() string {
	if e.Needs == NoScope {
		return "access tokens may not do this"
	}
	return "the access token does not have the scope " + string(e.Needs)
}
