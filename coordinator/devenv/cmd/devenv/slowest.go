package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// slow is how long a package or test must take to appear in the table, and slowLines is how many of each appear at
	// most.
	slow      = 10 * time.Second
	slowLines = 12
)

// timed is the event that ends a test or, if it names no test, a package.
type timed struct {
	Package, Test string
	Elapsed       float64 // seconds
}

// printSlowest prints the slowest packages and tests among events of `go test -json`. If the subtests of a test are
// parallel, the test's own time does not contain theirs. So the table lists the subtests.
func printSlowest(out io.Writer, events io.Reader) error {
	var packages, tests []timed
	for d := json.NewDecoder(events); ; {
		var e timed
		err := d.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading how long the tests took: %w", err)
		}
		switch {
		case e.Elapsed < slow.Seconds():
		case e.Test == "":
			packages = append(packages, e)
		default:
			tests = append(tests, e)
		}
	}
	tests = slices.DeleteFunc(slices.Clone(tests), func(e timed) bool {
		return slices.ContainsFunc(tests, func(outer timed) bool {
			return outer.Package == e.Package && strings.HasPrefix(e.Test, outer.Test+"/")
		})
	})
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, kind := range []struct {
		title string
		all   []timed
	}{{"SLOWEST PACKAGES", packages}, {"SLOWEST TESTS", tests}} {
		slices.SortFunc(kind.all, func(a, b timed) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
		if len(kind.all) > 0 {
			fmt.Fprintf(table, "\n%s\t\n", kind.title)
		}
		for _, e := range kind.all[:min(len(kind.all), slowLines)] {
			name := strings.TrimPrefix(e.Package, "github.com/codehub/gateway/")
			fmt.Fprintf(table, "%.0f s\t%s\n", e.Elapsed, strings.TrimSpace(name+" "+e.Test))
		}
	}
	return table.Flush()
}
