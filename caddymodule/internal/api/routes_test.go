package api_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/coordinator/audit"
)

// TestTheSpecificationListsTheRoutes compares the table of SPEC 9 with the routes.
func TestTheSpecificationListsTheRoutes(t *testing.T) {
	text, err := os.ReadFile("../../../coordinator/SPEC.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## 9. ")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed []string
	entry := regexp.MustCompile("`((?:GET|POST|PATCH|DELETE) )([a-z][^`?]*)")
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "| `") {
			for _, m := range entry.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
				listed = append(listed, m[1]+"/api/v1/"+m[2])
			}
		}
	}
	for _, route := range api.Routes() {
		if !slices.Contains(listed, route.Pattern) {
			t.Errorf("SPEC 9 does not list %s", route.Pattern)
		}
		listed = slices.DeleteFunc(listed, func(pattern string) bool { return pattern == route.Pattern })
	}
	for _, pattern := range listed {
		t.Errorf("SPEC 9 lists %s, which is no route", pattern)
	}
}

// TestActionsAreOfRoutesOrCommands checks that each action of the audit belongs to a route, or to something outside the
// API.
func TestActionsAreOfRoutesOrCommands(t *testing.T) {
	others := []audit.Action{
		audit.WorkspaceOpen, audit.APIRequest,
		audit.SystemAccept, audit.SystemMigrate, audit.SystemOrphans, audit.SystemEgress, audit.SystemThaw, // commands only
	}
	for _, route := range api.Routes() {
		others = append(others, route.Audit...)
	}
	for _, action := range audit.Actions() {
		if !slices.Contains(others, action) {
			t.Errorf("no route has the action %s", action)
		}
	}
}
