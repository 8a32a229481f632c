// Package reach is the check of the path to the gateway: the question that `caddy codehub doctor` sends to public_url,
// and the gateway's answer. The doctor learns from it whether the request reaches the installation that its settings
// describe, and how the gateway sees a browser's request.
//
// Both sides prove to each other that they know the identity of the database (SPEC 2). So a gateway answers only the
// doctor of its own installation. The package owns the form of the question and of the answer. It must not know what
// follows from an answer.
package reach

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Path is where a gateway answers. A request with Accept: text/event-stream receives the answer as the first event of a
// stream that stays open, a WebSocket receives it as the first message, and any other request receives JSON.
const Path = "/health/connection"

// Header carries a [Question].
const Header = "Codehub-Check"

// Cookie is set by each answer, with the attributes of a session cookie.
const Cookie = "codehub_check"

// Forwarded says whether a proxy passed the request on.
type Forwarded string

// The values of [Forwarded].
const (
	// ForwardedNot means that the request has no header of a proxy.
	ForwardedNot Forwarded = "no"
	// ForwardedTrusted means that the request came through a proxy in trusted_proxies.
	ForwardedTrusted Forwarded = "trusted"
	// ForwardedUntrusted means that the request came through another proxy.
	ForwardedUntrusted Forwarded = "untrusted"
)

// Answer describes how the gateway sees the request.
type Answer struct {
	// Proof shows that the gateway has the same database; see [Question.Proves].
	Proof string `json:"proof"`
	// Client is the client's IP address. Scheme and Host are those that the browser used, as far as the gateway can
	// tell.
	Client string `json:"client"`
	Scheme string `json:"scheme"`
	Host   string `json:"host"`
	// Main says that people can sign in at that host.
	Main bool `json:"main"`
	// TLS says that the gateway itself terminated TLS.
	TLS       bool      `json:"tls"`
	Forwarded Forwarded `json:"forwarded"`
}

// Question is asked once. The zero value proves nothing.
type Question struct{ nonce, key string }

// nonceSize is the size of the nonce, in bytes.
const nonceSize = 16

// Ask returns a new question for a gateway whose database has this identity.
func Ask(database string) Question {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // never fails
	return Question{hex.EncodeToString(nonce), database}
}

// String returns the question as [Header] carries it.
func (q Question) String() string { return q.nonce + "." + q.sign("ask") }

// Parse returns the question in a header. It reports false if the asker did not know the identity of the database, or
// if that identity is empty.
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
