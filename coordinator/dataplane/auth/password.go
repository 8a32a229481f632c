package auth

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// params are argon2id's costs.
type params struct {
	memory  uint32 // KiB
	passes  uint32
	threads uint8
}

// current are the costs of new hashes. Of the costs that OWASP recommends for argon2id, they are the first that fit a
// small machine.
var current = params{memory: 19 * 1024, passes: 2, threads: 1}

// The highest costs that a stored hash may have. They are limited so that no row can exhaust the memory of the process.
const (
	maxMemory  = 256 * 1024 // KiB
	maxPasses  = 16
	maxThreads = 16
)

// Lengths in bytes.
const (
	saltBytes = 16
	keyBytes  = 32
	// MaxPassword bounds the length of a password that a sign-in hashes, in bytes.
	MaxPassword = 1024
)

// hasher hashes and verifies a bounded number of passwords at the same time.
type hasher struct{ turns chan struct{} }

// newHasher returns a hasher for at most limit passwords at the same time.
func newHasher(limit int) *hasher { return &hasher{make(chan struct{}, limit)} }

// hash returns password's argon2id hash in PHC string form.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	salt := make([]byte, saltBytes)
	rand.Read(salt)
	key, err := h.derive(ctx, password, salt, current, keyBytes)
	if err != nil {
		return "", err
	}
	return encode(current, salt, key), nil
}

// verify reports whether encoded is the hash of password. An empty or malformed hash matches nothing, at full cost.
func (h *hasher) verify(ctx context.Context, encoded, password string) (bool, error) {
	p, salt, key, ok := decode(encoded)
	if !ok {
		p, salt, key = current, make([]byte, saltBytes), make([]byte, keyBytes)
	}
	if len(password) > MaxPassword {
		password, ok = password[:MaxPassword], false
	}
	got, err := h.derive(ctx, password, salt, p, uint32(len(key)))
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(got, key) == 1 && ok, nil
}

// derive waits for its turn and runs argon2id. The context bounds only the wait: once the computation has begun, it is
// completed.
func (h *hasher) derive(ctx context.Context, password string, salt []byte, p params, length uint32) ([]byte, error) {
	select {
	case h.turns <- struct{}{}:
		defer func() { <-h.turns }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting to hash a password: %w", ctx.Err())
	}
	return argon2.IDKey([]byte(password), salt, p.passes, p.memory, p.threads, length), nil
}

// outdated reports whether a hash has costs other than those of new hashes.
func outdated(encoded string) bool {
	p, _, _, ok := decode(encoded)
	return ok && p != current
}

// encode returns the PHC string form: $argon2id$v=19$m=…,t=…,p=…$salt$key.
func encode(p params, salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s",
		argon2.Version, p.memory, p.passes, p.threads, b64.EncodeToString(salt), b64.EncodeToString(key))
}

// decode reads the PHC string form. ok is false if the hash is malformed, or if its costs exceed the maxima above.
func decode(encoded string) (p params, salt, key []byte, ok bool) {
	part := strings.Split(encoded, "$")
	if len(part) != 6 || part[0] != "" || part[1] != "argon2id" || part[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, false
	}
	if n, err := fmt.Sscanf(part[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.threads); n != 3 || err != nil {
		return p, nil, nil, false
	}
	if p.memory == 0 || p.memory > maxMemory || p.passes == 0 || p.passes > maxPasses ||
		p.threads == 0 || p.threads > maxThreads {
		return p, nil, nil, false
	}
	salt, err := base64.RawStdEncoding.Strict().DecodeString(part[4])
	if err != nil || len(salt) < 8 || len(salt) > 64 {
		return p, nil, nil, false
	}
	key, err = base64.RawStdEncoding.Strict().DecodeString(part[5])
	if err != nil || len(key) < 16 || len(key) > 128 {
		return p, nil, nil, false
	}
	return p, salt, key, true
}
