package site

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// The values of WWW-Authenticate in answers with 401. Programs such as git and docker send the password that they have only
// when they are asked for Basic. A browser would ask its user for one then, so it never gets that.
const (
	BearerChallenge = `Bearer realm="CodeHub"`
	BasicChallenge  = `Basic realm="CodeHub", charset="UTF-8"`
)

// AccessToken reports whether the request carries a secret that begins with prefix, as Bearer or as the password of Basic, and
// returns it. It is "" beside other credentials, because it is unknown which of them count. Basic says that it is a password: a
// browser adds such credentials by itself, and no Bearer. Without the header it is one look-up.
func AccessToken(h http.Header, prefix string) (secret string, basic, ok bool) {
	if secret, ok = Bearer(h, prefix); ok {
		return secret, false, true
	}
	lines := h["Authorization"]
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			if password := basicPassword(part); strings.HasPrefix(password, prefix) {
				secret, ok = password, true
			}
		}
	}
	if ok && (len(lines) > 1 || strings.IndexByte(lines[0], ',') >= 0) {
		secret = ""
	}
	return secret, ok, ok
}

// basicPassword returns the password of Basic credentials, "" where there is none. It takes what lenient servers take.
func basicPassword(credentials string) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(credentials), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	rest = strings.TrimRight(strings.TrimSpace(rest), "=")
	encoding := base64.RawStdEncoding
	if strings.ContainsAny(rest, "-_") {
		encoding = base64.RawURLEncoding
	}
	text, err := encoding.DecodeString(rest)
	if err != nil {
		return ""
	}
	_, password, _ := strings.Cut(string(text), ":")
	return password
}
