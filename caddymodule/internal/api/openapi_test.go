package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
)

// TestTheDescriptionIsServed checks that the description is served without a sign-in, and with its media type.
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

// TestTheDescriptionIsShown checks that every operation, type and problem is shown without a sign-in.
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
