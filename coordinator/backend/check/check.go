// Package check defines the checks of `caddy codehub doctor`: the rows of a table, and their findings. Each backend has
// its own table; the command has the rows that concern no backend.
//
// It decides in which order the rows run, and what the result of a row is if its prerequisite failed. It must not know
// the subjects of the checks.
package check

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
)

// timeout bounds one check.
const timeout = time.Minute

// Level is the severity of a finding.
type Level string

// The levels of a [Finding].
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // it works, but may not be intended
	LevelProblem Level = "problem" // it does not work, or is not safe
)

// Finding is one line of doctor.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	// Remedy is what to do; empty with LevelOK.
	Remedy string `json:"remedy,omitempty"`
}

// OK is a finding that needs no remedy.
func OK(format string, args ...any) Finding { return finding(LevelOK, "", format, args) }

// Warning is a finding about something that works but may not be intended.
func Warning(remedy, format string, args ...any) Finding {
	return finding(LevelWarning, remedy, format, args)
}

// Problem is a finding about something that does not work, or is not safe.
func Problem(remedy, format string, args ...any) Finding {
	return finding(LevelProblem, remedy, format, args)
}

// finding keeps the text on one line: errors may have several.
func finding(l Level, remedy, format string, args []any) Finding {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	return Finding{Level: l, Text: text, Remedy: remedy}
}

// Row is one check.
type Row struct {
	Name string
	// Needs is an earlier row without which this one makes no sense, or "".
	Needs string
	// Run returns the findings, or an error if the answer is unknown.
	Run func(ctx context.Context) ([]Finding, error)
	// Remedy is what to do when Run fails.
	Remedy string
}

// Run runs the checks one after the other, because they share an engine.
func Run(ctx context.Context, table []Row) []Finding {
	var all []Finding
	failed := make(map[string]bool)
	for _, r := range table {
		if failed[r.Needs] {
			failed[r.Name] = true
			all = append(all, Finding{
				Check: r.Name, Level: LevelWarning, Text: "not checked", Remedy: "fix " + r.Needs + " first",
			})
			continue
		}
		found, err := r.try(ctx)
		if err != nil {
			failed[r.Name] = true
			found = append(found, Problem(r.Remedy, "%s", err))
		}
		for _, f := range found {
			f.Check = r.Name
			all = append(all, f)
		}
	}
	return all
}

// try runs a check in bounded time.
func (r Row) try(ctx context.Context) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return r.Run(ctx)
}

// Clock compares a server's clock with this machine's. The server was asked for its time between the two moments.
func Clock(server string, before, theirs, after time.Time) Finding {
	skew := clock.Skew(before, theirs, after).Abs()
	if skew > clock.LargestSkew {
		return Warning("synchronise the clocks of both machines (NTP)",
			"the clock of %s differs by %s from this machine's", server, skew.Round(time.Second))
	}
	return OK("%s answers, and its clock is right", server)
}

// Count returns a number of things in words, such as "2 nodes".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
