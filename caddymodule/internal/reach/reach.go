// Package reach is the question that `caddy codehub doctor` sends to public_url, and the gateway's
// answer. The doctor learns from it what arrives of a browser's requests, and that they arrive at the
// installation whose settings it has.
//
// Both sides know the identity of the database (SPEC 2) and prove it to each other, so a gateway
// answers its own doctor alone. It owns the form of question and answer, and must not know what
// follows from an answer.
package reach

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Path is where a gateway answers. A request with Accept: text/event-stream gets the answer as the
// first event of a stream that stays open, one for a WebSocket gets it as the first message, and any
// other one as JSON.
const Path = "/health/connection"

// Header carries a [Question].
const Header = "Codehub-Check"

// Cookie is set in each answer, with the attributes of a session's cookie.
const Cookie = "codehub_check"

// Forwarded says who has passed a request on.
type Forwarded string

// The values of [Forwarded].
const (
	// ForwardedNot is a request without a header of a proxy.
	ForwardedNot Forwarded = "no"
	// ForwardedTrusted came through a proxy that is named in trusted_proxies.
	ForwardedTrusted Forwarded = "trusted"
	// ForwardedUntrusted came through one that is not.
	ForwardedUntrusted Forwarded = "untrusted"
)

// Answer is what a gateway sees of the request.
type Answer struct {
	// Proof shows that the gateway has the same database; see [Question.Proves].
	Proof string `json:"proof"`
	// Client is the IP address that the request counts for, Scheme and Host are those that the
	// browser is taken to have used.
	Client string `json:"client"`
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	// Main says that people may sign in at that host.
	Main bool `json:"main"`
	// TLS says that the gateway itself has ended TLS.
	TLS       bool      `json:"tls"`
	Forwarded Forwarded `json:"forwarded"`
}

// Question is asked once. The zero value proves nothing.
type Question struct{ nonce, key string }

// nonceSize is the size of what makes a question unique, in bytes.
const nonceSize = 16

// Ask returns a new question to a gateway whose database has that identity.
func Ask(database string) Question {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	return Question{hex.EncodeToString(nonce), database}
}

// String is the question as [Header] carries it.
func (q Question) String() string { return q.nonce + "." + q.sign("ask") }

// Parse returns the question that a header carries. It reports false unless the one who asks knows
// the identity of the database, which must not be empty.
func Parse(header, database string) (q Question, ok bool) {
	nonce, signature, _ := strings.Cut(header, ".")
	q = Question{nonce, database}
	ok = database != "" && len(nonce) == hex.EncodedLen(nonceSize) && hmac.Equal([]byte(signature), []byte(q.sign("ask")))
	return q, ok
}

// Proof answers the question.
func (q Question) Proof() string { return q.sign("answer") }

// Proves reports whether the answer comes from a gateway with the same database.
func (q Question) Proves(a Answer) bool {
	return q.key != "" && hmac.Equal([]byte(a.Proof), []byte(q.Proof()))
}

func (q Question) sign(purpose string) string {
	mac := hmac.New(sha256.New, []byte(q.key))
	mac.Write([]byte(purpose + " " + q.nonce))
	return hex.EncodeToString(mac.Sum(nil))
}
