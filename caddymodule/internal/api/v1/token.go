package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// Token is a personal access token of the user.
type Token struct {
	ID              string       `json:"id"`
	Name            string       `json:"name"`
	Scopes          []auth.Scope `json:"scopes"`
	CreatedAt       time.Time    `json:"created_at"`
	ExpiresAt       time.Time    `json:"expires_at"`
	LastUsedAt      *time.Time   `json:"last_used_at"`
	LastUsedAddress *string      `json:"last_used_address"`
}

// NewToken is a newly created token, with the secret that a program sends.
type NewToken struct {
	Token
	Secret string `json:"token"`
}

// TokenOf returns a token as programs see it.
func TokenOf(t auth.Token) Token {
	return Token{
		t.ID, t.Name, t.Scopes, t.CreatedAt.UTC(), t.ExpiresAt.UTC(),
		timeOrNull(t.LastUsedAt), orNull(t.LastUsedAddress),
	}
}

// TokensOf returns several.
func TokensOf(tokens []auth.Token) []Token {
	out := make([]Token, len(tokens))
	for i, t := range tokens {
		out[i] = TokenOf(t)
	}
	return out
}
