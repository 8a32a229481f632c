// Package check is the form of what `caddy codehub doctor` checks: a row of a table, and what a
// check finds. Each backend has its table beside it; the command has the rows that concern none.
//
// It owns the order in which rows run, and what becomes of those that need another one. It must
// not know what is checked.
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

// Level is how bad a finding is.
type Level string

// The levels of a [Finding].
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // it works, and may not be what is wanted
	LevelProblem Level = "problem" // it does not work, or is not safe
)

// Finding is one line of doctor.
type Finding struct {
	Check string `json:"check"`
	Level Level  `json:"level"`
	Text  string `json:"text"`
	// Remedy says what to do; empty with LevelOK.
	Remedy string `json:"remedy,omitempty"`
}

// OK is a finding that needs no remedy.
func OK(format string, args ...any) Finding { return finding(LevelOK, "", format, args) }

// Warning is about what works, and may not be what is wanted.
func Warning(remedy, format string, args ...any) Finding {
	return finding(LevelWarning, remedy, format, args)
}

// Problem is about what does not work, or is not safe.
func Problem(remedy, format string, args ...any) Finding {
	return finding(LevelProblem, remedy, format, args)
}

// finding keeps the text in its row: errors may have several lines.
func finding(l Level, remedy, format string, args []any) Finding {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	return Finding{Level: l, Text: text, Remedy: remedy}
}

// Row is one check.
type Row struct {
	Name string
	// Needs is the row before it without which this one says nothing; empty for none.
	Needs string
	// Run returns what it found, or why it cannot know.
	Run func(ctx context.Context) ([]Finding, error)
	// Remedy is what to do when Run fails.
	Remedy string
}

// Run runs the checks, one after the other: they share an engine.
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

// Clock compares the clock of a server, which was asked between two moments, with that of this
// machine.
func Clock(server string, before, theirs, after time.Time) Finding {
	skew := clock.Skew(before, theirs, after).Abs()
	if skew > clock.LargestSkew {
		return Warning("synchronise the clocks of both machines (NTP)",
			"the clock of %s differs by %s from this machine's", server, skew.Round(time.Second))
	}
	return OK("%s answers, and its clock is right", server)
}

// Count is a number of things as people write it.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}
