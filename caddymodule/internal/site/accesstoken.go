package site

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// The values of WWW-Authenticate in answers with 401. Programs such as git and docker send their password only if the
// answer asks for Basic. A browser that is asked for Basic would ask its user for a password, so browsers are never
// asked for it.
const (
	BearerChallenge = `Bearer realm="CodeHub"`
	BasicChallenge  = `Basic realm="CodeHub", charset="UTF-8"`
)

// AccessToken returns the secret that the request carries as Bearer or in Basic, if it begins with prefix, and reports
// whether there is one. In Basic it is the password or, as some git users write it, the user name. The secret is "" if
// the request also carries other credentials, because it is unknown which of them count. Browsers add Basic by
// themselves, but never Bearer.
// Without the header this costs one look-up.
func AccessToken(h http.Header, prefix string) (secret string, basic, ok bool) {
	if secret, ok = Bearer(h, prefix); ok {
		return secret, false, true
	}
	lines := h["Authorization"]
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			user, password := basicCredentials(part)
			for _, text := range [...]string{user, password} { // the password takes precedence
				if strings.HasPrefix(text, prefix) {
					secret, ok = text, true
				}
			}
		}
	}
	if ok && (len(lines) > 1 || strings.IndexByte(lines[0], ',') >= 0) {
		secret = ""
	}
	return secret, ok, ok
}

// basicCredentials returns the user name and the password of Basic credentials, "" if there are none. It skips
// characters that are not base64, and an incomplete end, as many servers do.
func basicCredentials(credentials string) (user, password string) {
	scheme, rest := splitCredentials(credentials)
	if !strings.EqualFold(scheme, "Basic") {
		return "", ""
	}
	rest = strings.Map(func(c rune) rune {
		switch {
		case c == '-':
			return '+'
		case c == '_':
			return '/'
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '/':
			return c
		}
		return -1
	}, rest)
	text, _ := base64.RawStdEncoding.DecodeString(rest) // returns what precedes an error
	user, password, _ = strings.Cut(string(text), ":")
	return user, password
}
