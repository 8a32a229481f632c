package openapi

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestTypesOfProblemsStay: programs compare them. A line can be added to the list, and none may go.
func TestTypesOfProblemsStay(t *testing.T) {
	text, err := os.ReadFile("testdata/problems.txt")
	if err != nil {
		t.Fatal(err)
	}
	document, err := Parse()
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
