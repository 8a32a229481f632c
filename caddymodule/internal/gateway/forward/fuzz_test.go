package forward

import (
	"net/http"
	"net/textproto"
	"strings"
	"testing"
)

// FuzzRequestHeaders asserts that no request shows a workspace the gateway's cookies, or headers in which
// proxies vouch for users or clients.
func FuzzRequestHeaders(f *testing.F) {
	for _, c := range [][3]string{{"X-Forwarded-User", "close", "session=a; b=c"}, {"x_codehub_user", "X-Forwarded-For", "a=b;__Host-session=x"},
		{"Remote-User", "upgrade, Cookie", "__HOST-codehub_ws=1"}, {"Accept", "X-Accept", " codehub_lang = ko"}, {"Accept", "", "__Host-codehub_session=1; session=x"}} {
		f.Add(c[0], c[1], c[2])
	}
	f.Fuzz(func(t *testing.T, name, connection, cookies string) {
		name = textproto.CanonicalMIMEHeaderKey(name) // as a server reads it
		h := http.Header{"Connection": {connection}, "Cookie": {cookies}}
		if name != "Connection" && name != "Cookie" {
			h[name] = []string{"value"}
		}
		ownHost := len(cookies)%2 == 0
		cleanRequestHeaders(h, ownHost, true)
		for _, line := range h["Cookie"] {
			for part := range strings.SplitSeq(line, ";") {
				if isOwnCookie(part, ownHost) {
					t.Errorf("of %q a cookie of ours is left: %q", cookies, line)
				}
			}
		}
		for left := range h {
			spelt := strings.ToLower(strings.ReplaceAll(left, "_", "-"))
			for _, closed := range []string{"x-codehub-", "remote-", "x-remote-", "x-auth-request-", "x-authelia-", "cf-access-", "tailscale-", "x-ssl-client-"} {
				if strings.HasPrefix(spelt, closed) {
					t.Errorf("%s is left", left)
				}
			}
			if strings.HasPrefix(spelt, "x-forwarded-") && left != "X-Forwarded-For" && left != "X-Forwarded-Host" && left != "X-Forwarded-Proto" ||
				spelt == "authorization" || spelt == "forwarded" || spelt == "proxy" {
				t.Errorf("%s is left", left)
			}
		}
		// The proxy removes the headers that Connection names, so Connection must name none that the gateway adds.
		for _, line := range h["Connection"] {
			for token := range strings.SplitSeq(line, ",") {
				switch strings.ToLower(strings.TrimSpace(token)) {
				case "", "upgrade", "close", "keep-alive", "te":
				default:
					t.Errorf("Connection still names %q, of %q", token, connection)
				}
			}
		}
	})
}
