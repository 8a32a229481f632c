package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
)

// TokenPrefix begins the secret of every personal access token. It is longer than a session's token. Therefore it is
// never accepted in a cookie, and a session's token is never accepted in a header.
const TokenPrefix = "chg_"

// Limits of personal access tokens.
const (
	// DefaultTokenDays and MaxTokenDays are how many days a token is valid.
	DefaultTokenDays = 30
	MaxTokenDays     = 365
	// MaxTokens is how many tokens a user may have.
	MaxTokens = 100
	// MaxTokenName is the longest name, in characters.
	MaxTokenName = 100
)

// ErrTooManyTokens: the user already has [MaxTokens].
var ErrTooManyTokens = errors.New("too many access tokens")

// Token is a personal access token as its owner sees it.
type Token struct {
	// ID identifies the token for [Auth.RevokeToken].
	ID, Name string
	// Scopes are what the token may do.
	Scopes               []Scope
	CreatedAt, ExpiresAt time.Time
	// LastUsedAt, accurate to a few minutes, and the address of the last use are zero before the first use.
	LastUsedAt      time.Time
	LastUsedAddress string
}

// tokenOf returns the token of a row.
func tokenOf(row accounts.Token) Token {
	t := Token{
		ID: row.ID, Name: row.Name, CreatedAt: row.CreatedAt, ExpiresAt: row.ExpiresAt,
		LastUsedAt: row.LastUsedAt, LastUsedAddress: row.Address,
	}
	for _, s := range row.Scopes {
		t.Scopes = append(t.Scopes, Scope(s))
	}
	return t
}

// CreateToken creates a personal access token for the user who is signed in with g, and returns its secret, which is not stored
// anywhere. It returns [*InvalidError], [ErrTooManyTokens], and [ErrNoSession] if the sign-in has ended or is itself a token.
func (a *Auth) CreateToken(ctx context.Context, g Grant, name string, of []Scope, days int) (
	t Token, secret string, err error) {
	if name, err = checkToken(g.User, name, of, days); err != nil {
		return t, "", err
	}
	known, err := a.store.TokensOf(ctx, g.ID)
	if err != nil {
		return t, "", err
	}
	if len(known) >= MaxTokens {
		return t, "", ErrTooManyTokens
	}
	var stored []string
	for _, s := range Scopes() { // each once, in this order
		if slices.Contains(of, s) {
			stored = append(stored, string(s))
		}
	}
	random, _ := newToken()
	secret = TokenPrefix + random
	hash, _ := hashSecret(secret)
	row, err := a.store.AddToken(ctx, g.ID, g.Session(), hash, name, stored, time.Duration(days)*24*time.Hour)
	if errors.Is(err, postgres.ErrNotFound) {
		err = ErrNoSession
	}
	if err != nil {
		return t, "", err
	}
	return tokenOf(row), secret, nil
}

// checkToken returns the name without surrounding spaces, or an [*InvalidError].
func checkToken(u User, name string, of []Scope, days int) (string, error) {
	if !utf8.ValidString(name) {
		return name, &InvalidError{"name", words.Of("problem.rule.utf8", nil)}
	}
	name = strings.TrimSpace(name)
	if n := utf8.RuneCountInString(name); n < 1 || n > MaxTokenName {
		return name, &InvalidError{"name", words.Of("problem.rule.length", words.Values{"Max": MaxTokenName, "Given": n})}
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return name, &InvalidError{"name",
				words.Of("problem.rule.control", words.Values{"Character": fmt.Sprintf("%U", r)})}
		}
	}
	unknown := func(s Scope) bool { return bitOf(s) == 0 }
	if len(of) == 0 || slices.ContainsFunc(of, unknown) {
		return name, &InvalidError{"scopes", words.Of("problem.rule.scopes", nil)}
	}
	if slices.Contains(of, ScopeAdmin) && !u.Admin() {
		return name, &InvalidError{"scopes", words.Of("problem.rule.scope_admin", nil)}
	}
	if days < 1 || days > MaxTokenDays {
		return name, &InvalidError{"expires_in_days", words.Of("problem.rule.from_1", words.Values{"Max": MaxTokenDays})}
	}
	return name, nil
}

// Tokens lists the user's personal access tokens, newest first.
func (a *Auth) Tokens(ctx context.Context, userID string) ([]Token, error) {
	rows, err := a.store.TokensOf(ctx, userID)
	if err != nil {
		return nil, err
	}
	out := make([]Token, len(rows))
	for i, row := range rows {
		out[i] = tokenOf(row)
	}
	return out, nil
}

// RevokeToken ends one of the user's personal access tokens, and everything that is open with it. It returns [ErrNoToken].
func (a *Auth) RevokeToken(ctx context.Context, userID, id string) error {
	if !checkText(id) {
		return ErrNoToken
	}
	ended, err := a.store.EndToken(ctx, userID, id)
	if err == nil && len(ended) == 0 {
		err = ErrNoToken
	}
	a.sessions.cache.revoke(ended...)
	return err
}

// Token returns the grant of a personal access token with this secret, if it has the scope that the request needs. The
// token is checked in memory, as a session is. When the token ends, everything that is open with it is closed. address
// is where the request comes from. It returns [ErrBadToken] and [*ScopeError].
func (a *Auth) Token(ctx context.Context, secret string, needs Scope, address string) (Grant, error) {
	h, ok := hashSecret(secret)
	if !ok {
		return Grant{}, ErrBadToken
	}
	e, err := a.sessions.find(ctx, h, address)
	switch {
	case errors.Is(err, ErrNoSession):
		return Grant{}, ErrBadToken
	case err != nil:
		return Grant{}, err
	case e.life.scopes == 0:
		return Grant{}, ErrBadToken // some other session
	}
	if e.life.touched.Load() == 0 { // not used in this process before
		a.sessions.check(h, e, a.sessions.now().UnixNano(), address)
	}
	if !e.life.scopes.has(needs) {
		return Grant{}, &ScopeError{needs, e.grant()}
	}
	return e.grant(), nil
}

// secretLength is the length of a token's secret.
const secretLength = len(TokenPrefix) + tokenLength

// hashSecret hashes the secret of a personal access token without allocating. ok is false for text that cannot be one.
func hashSecret(secret string) (hash accounts.TokenHash, ok bool) {
	if len(secret) != secretLength || !strings.HasPrefix(secret, TokenPrefix) {
		return hash, false
	}
	var text [secretLength]byte
	copy(text[:], secret)
	return sha256.Sum256(text[:]), true
}
