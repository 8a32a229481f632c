package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
)

// TestEveryRouteIsDescribed: no route without an operation of the description, no operation without a
// route, and the same scopes.
func TestEveryRouteIsDescribed(t *testing.T) {
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	described := map[string]string{}
	ids := map[string]bool{}
	for _, methods := range document.Paths {
		for _, o := range methods {
			described[o.Method+" /api/v1"+o.Path] = o.Scope
			if ids[o.ID] || o.ID == "" || o.Summary == "" {
				t.Errorf("%s %s: the id %q, the summary %q", o.Method, o.Path, o.ID, o.Summary)
			}
			ids[o.ID] = true
		}
	}
	routes := api.RouteScopes()
	for _, pattern := range slices.Sorted(maps.Keys(routes)) {
		scope, ok := described[pattern]
		if !ok {
			t.Errorf("%s has no operation: add one to openapi/operations_test.go", pattern)
		} else if scope != string(routes[pattern]) {
			t.Errorf("%s needs the scope %q, the description says %q", pattern, routes[pattern], scope)
		}
		delete(described, pattern)
	}
	for pattern := range described {
		t.Errorf("%s is described, and there is no such route", pattern)
	}
}

// TestTheDescriptionIsServed: to everyone who asks, with its media type.
func TestTheDescriptionIsServed(t *testing.T) {
	in := newHarness(t)
	a := in.anyone().Do("GET", "/api/v1/openapi.json", nil)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "application/json" || !json.Valid(a.Text) || !strings.Contains(string(a.Text), `"openapi": "3.1.0"`) {
		t.Errorf("status %d, %s", a.StatusCode, a.Header.Get("Content-Type"))
	}
	if again := in.anyone().Do("GET", "/api/v1/openapi.json", nil, "If-None-Match: "+a.Header.Get("ETag")); again.StatusCode != 304 {
		t.Errorf("not changed: status %d", again.StatusCode)
	}
}

// TestTheDescriptionIsShown: every operation, type and problem, to everyone who asks.
func TestTheDescriptionIsShown(t *testing.T) {
	in := newHarness(t)
	a := in.anyone().Do("GET", "/api", nil)
	document, err := openapi.Parse()
	if err != nil || a.StatusCode != 200 || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("%v, status %d, %s", err, a.StatusCode, a.Header.Get("Content-Type"))
	}
	page := string(a.Text)
	for _, methods := range document.Paths {
		for _, o := range methods {
			if !strings.Contains(page, `id="`+o.ID+`"`) {
				t.Errorf("%s %s is not shown", o.Method, o.Path)
			}
		}
	}
	for name := range document.Components.Schemas {
		if !strings.Contains(page, `id="type-`+name+`"`) {
			t.Errorf("the type %s is not shown", name)
		}
	}
	for _, p := range document.Problems {
		if !strings.Contains(page, p.Type) {
			t.Errorf("the problem %s is not shown", p.Type)
		}
	}
}
