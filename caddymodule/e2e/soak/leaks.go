package soak

import (
	"bufio"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Snapshot counts everything that a run may leak, at rest. The names have parts, such as "caddy-1 goroutines" or
// "rows workspaces".
type Snapshot map[string]float64

// Allowance is how much the values whose names match a pattern may grow between two snapshots at equal load. If several
// patterns match a name, the first one counts.
type Allowance struct {
	Name *regexp.Regexp
	// More is by how much the value may grow. If Any is true, any value is right.
	More float64
	Any  bool
	// If Less is true, the value may not decrease by more than that either.
	Less bool
}

// Leaks compares a snapshot with an earlier one, and names every value that has grown by more than its allowance. Names
// without an allowance may not grow at all. If one snapshot lacks a name, its value there counts as 0.
func Leaks(before, after Snapshot, allowed []Allowance) (leaks []string) {
	names := maps.Clone(after)
	maps.Copy(names, before)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var a Allowance
		if i := slices.IndexFunc(allowed, func(a Allowance) bool { return a.Name.MatchString(name) }); i >= 0 {
			a = allowed[i]
		}
		if more := after[name] - before[name]; !a.Any && (more > a.More || a.Less && more < -a.More) {
			leaks = append(leaks, fmt.Sprintf("%s: %g, before %g", name, after[name], before[name]))
		}
	}
	return leaks
}

// goroutine matches the first line of a group of goroutines with the same stack, in a profile with debug=1.
var goroutine = regexp.MustCompile(`^(\d+) @`)

// Goroutines reads a profile of goroutines, as pprof writes it with debug=1. It counts the goroutines by the innermost
// function of this repository in their stack. A goroutine without one is counted by its first function.
func Goroutines(profile string) map[string]int {
	all := map[string]int{}
	count, name, own := 0, "", false
	end := func() {
		if count > 0 {
			all[name] += count
		}
		count, name, own = 0, "", false
	}
	lines := bufio.NewScanner(strings.NewReader(profile))
	for lines.Scan() {
		if m := goroutine.FindStringSubmatch(lines.Text()); m != nil {
			end()
			count, _ = strconv.Atoi(m[1])
			continue
		}
		// #	0x47	github.com/codehub/gateway/x.f+0x10	/path/x.go:12
		fields := strings.Fields(lines.Text())
		if count == 0 || own || len(fields) < 3 || fields[0] != "#" {
			continue
		}
		function, _, _ := strings.Cut(fields[2], "+0x")
		name, own = function, strings.HasPrefix(function, "github.com/codehub/")
	}
	end()
	return all
}

// Grown lists by how much the groups of goroutines have grown, beginning with the largest growth.
func Grown(before, after map[string]int) (grown []string) {
	names := slices.SortedFunc(maps.Keys(after), func(a, b string) int {
		return (after[b] - before[b]) - (after[a] - before[a])
	})
	for _, name := range names {
		if more := after[name] - before[name]; more > 0 {
			grown = append(grown, fmt.Sprintf("%+d %s", more, name))
		}
	}
	return grown
}
