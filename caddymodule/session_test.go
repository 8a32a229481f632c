package codehub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
)

// behind puts the session provider in front of a handler that answers with the user.
func behind(optional bool) []map[string]any {
	return []map[string]any{{"handle": []map[string]any{
		{"handler": "authentication", "providers": map[string]any{"codehub": map[string]any{"optional": optional}}},
		{"handler": "static_response", "body": "[{http.auth.user.id}|{http.auth.user.username}|{http.auth.user.role}]"},
	}}}
}

func TestSessionProvider(t *testing.T) {
	in := install(t)
	ann := in.signedIn("ann")
	id := ann.Do("GET", "/api/v1/auth/session", nil).Object(t)["user_id"].(string)
	forged := in.anyone()
	forged.Cookie = "forged"
	for _, optional := range []bool{false, true} {
		in.routes = behind(optional)
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
		if a := ann.Do("GET", "/", nil); string(a.Text) != "["+id+"|ann|user]" {
			t.Errorf("optional %t: signed in: status %d: %s", optional, a.StatusCode, a.Text)
		}
		for _, c := range []*apitest.Client{in.anyone(), forged} {
			a := c.Do("GET", "/", nil)
			if optional && string(a.Text) != "[||]" || !optional && a.StatusCode != 401 {
				t.Errorf("optional %t: not signed in: status %d: %s", optional, a.StatusCode, a.Text)
			}
		}
	}
}

// An access token opens workspaces. It opens no other site that an operator protects with the session provider. The
// token appears in no log.
func TestSessionProviderWithAnAccessToken(t *testing.T) {
	in := install(t)
	ann, anyone := in.signedIn("ann"), in.anyone()
	token := ann.Do("POST", "/api/v1/tokens", map[string]any{"name": "x", "scopes": []string{"workspace"}}).Object(t)["token"].(string)
	in.routes = behind(false)
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	const path = "/w/0123abcd-0000-4000-8000-00000000000a/"
	if a := anyone.Do("GET", path, nil, "Authorization: Bearer "+token); !strings.Contains(string(a.Text), "|ann|user]") {
		t.Errorf("status %d: %s", a.StatusCode, a.Text)
	}
	for _, c := range []*apitest.Client{anyone, ann} {
		if a := c.Do("GET", "/", nil, "Authorization: Bearer "+token); a.StatusCode != 401 {
			t.Errorf("for something else: status %d: %s", a.StatusCode, a.Text)
		}
		if a := c.Do("GET", path, nil, "Authorization: Bearer chg_x"); a.StatusCode != 401 {
			t.Errorf("not valid: status %d: %s", a.StatusCode, a.Text)
		}
	}
	r, _ := http.NewRequest("GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	log := zapcore.NewMapObjectEncoder()
	if err := (caddyhttp.LoggableHTTPRequest{Request: r}).MarshalLogObject(log); err != nil || strings.Contains(fmt.Sprint(log.Fields), token) {
		t.Errorf("the access log has %v, %v", log.Fields, err)
	}
}

func TestSessionProviderInTheCaddyfile(t *testing.T) {
	for input, want := range map[string]string{
		"codehub":                    "",
		"codehub {\n\toptional\n}":   "",
		"codehub {\n\toptional 1\n}": `optional takes no value: remove "1", at Testfile:2`,
		"codehub {\n\tmaybe\n}":      `the codehub authentication provider has no option "maybe": write optional, at Testfile:2`,
	} {
		s := new(SessionAuth)
		err := s.UnmarshalCaddyfile(caddyfile.NewTestDispenser(input))
		if got := errorText(err); got != want {
			t.Errorf("%q: got %q, want %q", input, got, want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
