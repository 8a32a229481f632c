package oidc

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// attempt is one sign-in that is under way. The browser keeps it in a cookie, so that only the browser that began the
// sign-in can complete it, at any process.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"`
}

// attemptTTL is how long a user may take to sign in at the provider.
const attemptTTL = 10 * time.Minute

// maxReturn bounds, in bytes, the path to come back to: a cookie has little room.
const maxReturn = 2000

// newAttempt begins a sign-in that leads back to a local path.
func newAttempt(back string) attempt {
	if back = site.LocalPath(back); len(back) > maxReturn {
		back = "/"
	}
	return attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Return: back}
}

// remember gives the attempt to the browser.
func (h *Handler) remember(w http.ResponseWriter, at *site.Address, a attempt) {
	text, _ := json.Marshal(a) // texts only
	at.SetSession(w, site.SignInCookie, base64.RawURLEncoding.EncodeToString(text), int(attemptTTL/time.Second))
}

// take reads from the cookie the attempt that the browser began. It deletes the cookie, because an attempt is valid
// only once. If there are two such cookies, one of them was planted, and neither is valid.
func (h *Handler) take(w http.ResponseWriter, r *http.Request, at *site.Address) (a attempt, ok bool) {
	value, err := at.Token(r.Header, site.SignInCookie)
	if err != nil {
		at.ExpireCopies(w, r, site.SignInCookie)
	}
	at.SetSession(w, site.SignInCookie, "", 0)
	text, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil || len(text) == 0 || json.Unmarshal(text, &a) != nil {
		return attempt{}, false
	}
	a.Return = site.LocalPath(a.Return)
	return a, true
}
