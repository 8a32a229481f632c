package openapitest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestEverySchemaIsValid(t *testing.T) {
	if err := CheckAll(); err != nil {
		t.Error(err)
	}
}

// TestWhatTheDescriptionDoesNotAllow tests that each kind of violation is found.
func TestWhatTheDescriptionDoesNotAllow(t *testing.T) {
	const (
		user    = `{"user_id": "1", "username": "ann", "role": "user"}`
		problem = `{"type": "urn:codehub:problem:bad-request", "title": "X", "status": 400}`
		limits  = `{"max_running_per_user": null, "max_dozing_per_user": null, "max_workspaces_per_user": 2}`
	)
	for _, c := range []struct {
		name, method, path, sent string
		status                   int
		media, body              string
		allowed                  bool
	}{
		{"an answer", "GET", "/api/v1/me", "", 200, "application/json", user, true},
		{"null", "GET", "/api/v1/limits", "", 200, "application/json", limits, true},
		{"a further field", "GET", "/api/v1/me", "", 200, "application/json", strings.Replace(user, "{", `{"x": 1, `, 1), false},
		{"a missing field", "GET", "/api/v1/me", "", 200, "application/json", `{"user_id": "1", "role": "user"}`, false},
		{"another type", "GET", "/api/v1/limits", "", 200, "application/json", strings.Replace(limits, "2", `"2"`, 1), false},
		{"another media type", "GET", "/api/v1/me", "", 200, "text/plain", user, false},
		{"another status", "GET", "/api/v1/me", "", 201, "application/json", user, false},
		{"a problem", "POST", "/api/v1/auth/login", "", 400, "application/problem+json", problem, true},
		{"a problem with another status", "GET", "/api/v1/me", "", 401, "application/problem+json", problem, false},
		{"a problem that is not of this operation", "GET", "/api/v1/me", "", 409, "application/problem+json", strings.Replace(strings.Replace(problem, "400", "409", 1), "bad-request", "deleted", 1), false},
		{"a problem of an unknown type", "POST", "/api/v1/auth/login", "", 400, "application/problem+json", strings.Replace(problem, "bad", "x", 1), false},
		{"another path that is refused otherwise", "GET", "/api/v1/x", "", 400, "application/problem+json", problem, false},
		{"a problem without a type", "POST", "/api/v1/auth/login", "", 400, "application/problem+json", `{"title": "X", "status": 400}`, false},
		{"a body where there is none", "DELETE", "/api/v1/tokens/1", "", 204, "", "x", false},
		{"an unknown path", "GET", "/api/v1/x", "", 404, "application/problem+json", strings.Replace(strings.Replace(problem, "400", "404", 1), "bad-request", "not-found", 1), true},
		{"an unknown path that is served", "GET", "/api/v1/x", "", 200, "application/json", "{}", false},
		{"an unknown parameter that is served", "GET", "/api/v1/limits?x=1", "", 200, "application/json", limits, false},
		{"a wrong parameter that is served", "GET", "/api/v1/users?limit=0", "", 200, "application/json", `{"items": [], "next_cursor": null}`, false},
		{"a wrong request that is served", "POST", "/api/v1/auth/login", `{"username": "ann"}`, 200, "application/json", user, false},
		{"a field twice that is served", "POST", "/api/v1/auth/login", `{"username": "ann", "password": "a", "password": "b"}`, 200, "application/json", user, false},
		{"a wrong request that is refused", "POST", "/api/v1/auth/login", `{"username": "ann"}`, 400, "application/problem+json", problem, true},
		{"another path", "GET", "/w/1/", "", 200, "text/html", "x", true},
	} {
		answer := httptest.NewRecorder()
		if c.media != "" {
			answer.Header().Set("Content-Type", c.media)
		}
		answer.WriteHeader(c.status)
		r := httptest.NewRequest(c.method, c.path, http.NoBody)
		err := Check(Exchange{r, []byte(c.sent), answer.Result(), []byte(c.body)})
		if (err == nil) != c.allowed {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
