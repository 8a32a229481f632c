package settings

import (
	"strings"
	"testing"
)

// A placeholder that clients can set is refused, and so is text that is no placeholder.
func TestTheNameOfTheUserIsNotTheClients(t *testing.T) {
	for text, want := range map[string]string{
		"{http.auth.user.id}":                     "",
		"http.reverse_proxy.header.Remote-User":   "",
		"{http.request.tls.client.subject}":       "",
		"{http.request.header.Remote-User}":       "what clients send",
		"{http.request.cookie.user}":              "what clients send",
		"{header.Remote-User}":                    "not one placeholder of requests",
		"ann":                                     "not one placeholder of requests",
		"{http.auth.user.id}@{http.request.host}": "not one placeholder of requests",
	} {
		var key string
		if err := namePlaceholder(&key)(text); want == "" && (err != nil || key != strings.Trim(text, "{}")) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v", text, key, err)
		}
	}
}
