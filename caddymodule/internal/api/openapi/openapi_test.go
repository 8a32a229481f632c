package openapi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
)

// TestTypesOfProblemsStay checks that no type of problem disappears, because programs compare types. A line may be
// added to the list, but none removed.
func TestTypesOfProblemsStay(t *testing.T) {
	text, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	document, err := openapi.Parse()
	if err != nil {
		t.Fatal(err)
	}
	var now, described []string
	for _, p := range kinds(t) {
		now = append(now, fmt.Sprint(p.Status, " ", p.Type))
	}
	for _, p := range document.Problems {
		described = append(described, fmt.Sprint(p.Status, " ", p.Type))
	}
	listed := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range listed {
		if !slices.Contains(now, line) {
			t.Errorf("the problem %q is gone", line)
		}
	}
	for _, line := range now {
		if !slices.Contains(listed, line) {
			t.Errorf("the problem %q is new: add it to testdata/problems.txt", line)
		}
	}
	if !slices.Equal(now, described) {
		t.Errorf("the description has %q", described)
	}
}

// TestTheDescriptionIsComplete checks the rules of the usual linters: each operation has a description, a success and
// a refusal, and no description is unused. redocly lint finds nothing. spectral lint demands a success other than 101
// for the WebSocket, but the WebSocket has no other.
func TestTheDescriptionIsComplete(t *testing.T) {
	var raw struct {
		Info       struct{ License, Contact map[string]string }
		Tags       []struct{ Name, Description string }
		Components struct{ Schemas, Responses map[string]any }
		Paths      map[string]map[string]struct {
			OperationID, Summary, Description string
			Tags                              []string
			Responses                         map[string]any
		}
	}
	if err := json.Unmarshal(openapi.JSON, &raw); err != nil {
		t.Fatal(err)
	}
	if raw.Info.License["identifier"] == "" || raw.Info.Contact["url"] == "" {
		t.Errorf("the license is %v, the contact %v", raw.Info.License, raw.Info.Contact)
	}
	var tagged []string
	for _, tag := range raw.Tags {
		if tagged = append(tagged, tag.Name); tag.Description == "" {
			t.Errorf("the tag %s has no description", tag.Name)
		}
	}
	ids := map[string]bool{}
	for path, methods := range raw.Paths {
		for method, o := range methods {
			if o.OperationID == "" || ids[o.OperationID] || o.Summary == "" || o.Description == "" ||
				len(o.Tags) != 1 || !slices.Contains(tagged, o.Tags[0]) {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			ids[o.OperationID] = true
			successes, refusals := 0, 0
			for status := range o.Responses {
				switch {
				case strings.HasPrefix(status, "4"):
					refusals++
				case strings.HasPrefix(status, "2"), status == "101":
					successes++
				}
			}
			if successes == 0 || refusals == 0 {
				t.Errorf("%s %s never succeeds, or is never refused", method, path)
			}
		}
	}
	used := func(kind, name string) bool {
		return strings.Contains(string(openapi.JSON), fmt.Sprintf("%q", "#/components/"+kind+"/"+name))
	}
	for name := range raw.Components.Schemas {
		if !used("schemas", name) {
			t.Errorf("the schema %s is not used", name)
		}
	}
	for name := range raw.Components.Responses {
		if !used("responses", name) {
			t.Errorf("the response %s is not used", name)
		}
	}
}
