package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"

	"github.com/codehub/gateway/coordinator/store/accounts"
)

// tokenLength is the length of 256 bits in unpadded base64.
const tokenLength = 43

// newToken returns a token and its hash. Only the hash is stored.
func newToken() (string, accounts.TokenHash) {
	var bits [32]byte
	rand.Read(bits[:]) // never returns an error: the program ends if the system has no randomness
	token := base64.RawURLEncoding.EncodeToString(bits[:])
	hash, _ := hashToken(token)
	return token, hash
}

// hashToken hashes a token without allocating. ok is false for text that cannot be a token because its length differs.
func hashToken(token string) (hash accounts.TokenHash, ok bool) {
	if len(token) != tokenLength {
		return hash, false
	}
	var text [tokenLength]byte
	copy(text[:], token)
	return sha256.Sum256(text[:]), true
}
