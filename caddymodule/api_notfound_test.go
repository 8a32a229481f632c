package codehub

import (
	"strings"
	"testing"
)

// If no handler behind the API answers, a person gets a page, and a program gets a problem. If a handler behind the API
// answers, its answer stays unchanged. If the configuration has error pages of its own, these are shown.
func TestPathsThatNothingServesAreNotFound(t *testing.T) {
	in := install(t)
	c := in.anyone()
	behind := func(handlers ...map[string]any) {
		t.Helper()
		in.routes = in.routes[:1:1]
		if handlers != nil {
			in.routes = append(in.routes, map[string]any{"handle": handlers})
		}
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
	}
	behind()
	page := c.Do("GET", "/nothing", nil, "Sec-Fetch-Mode: navigate")
	if page.StatusCode != 404 || !strings.Contains(string(page.Text), "찾을 수 없습니다") || page.Header.Get("Content-Security-Policy") == "" {
		t.Errorf("a person gets status %d: %s", page.StatusCode, page.Text)
	}
	c.Do("POST", "/nothing", nil).Problem(t, 404, "not-found")
	ticket := c.Do("GET", "/auth/ticket?workspace=x", nil, "Sec-Fetch-Mode: navigate")
	if ticket.StatusCode != 404 || !strings.Contains(string(ticket.Text), "찾을 수 없습니다") {
		t.Errorf("a ticket for no workspace: status %d: %s", ticket.StatusCode, ticket.Text)
	}
	behind(map[string]any{"handler": "static_response", "body": "next"})
	if a := c.Do("GET", "/nothing", nil); a.StatusCode != 200 || string(a.Text) != "next" {
		t.Errorf("a handler behind answers %d: %s", a.StatusCode, a.Text)
	}
	behind(map[string]any{"handler": "static_response", "status_code": "200"})
	if a := c.Do("GET", "/nothing", nil); a.StatusCode != 200 || len(a.Text) != 0 {
		t.Errorf("a handler behind that sends nothing answers %d: %s", a.StatusCode, a.Text)
	}
	behind()
	in.errors = []map[string]any{{"handle": []map[string]any{{"handler": "static_response", "status_code": "404", "body": "own page"}}}}
	behind()
	if a := c.Do("GET", "/nothing", nil, "Sec-Fetch-Mode: navigate"); a.StatusCode != 404 || string(a.Text) != "own page" {
		t.Errorf("with error pages of its own: %d: %s", a.StatusCode, a.Text)
	}
}
