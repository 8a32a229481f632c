package check

import (
	"context"
	"errors"
	"slices"
	"testing"
)

// TestRun: a row that fails is a problem with its remedy, on one line. Rows that depend on it, directly or not, do not
// run.
func TestRun(t *testing.T) {
	ran := ""
	row := func(name, needs string, err error, found ...Finding) Row {
		return Row{name, needs, func(context.Context) ([]Finding, error) {
			ran += name
			return found, err
		}, "look at " + name}
	}
	got := Run(t.Context(), []Row{
		row("a", "", nil, OK("fine"), Warning("change it", "odd")),
		row("b", "", errors.New("two\n  lines"), OK("a part of it")),
		row("c", "b", nil), row("d", "c", nil), row("e", "a", nil, OK("fine")),
	})
	want := []Finding{
		{"a", LevelOK, "fine", ""}, {"a", LevelWarning, "odd", "change it"},
		{"b", LevelOK, "a part of it", ""}, {"b", LevelProblem, "two lines", "look at b"},
		{"c", LevelWarning, "not checked", "fix b first"}, {"d", LevelWarning, "not checked", "fix c first"},
		{"e", LevelOK, "fine", ""},
	}
	if !slices.Equal(got, want) || ran != "abe" {
		t.Errorf("ran %s, found %+v", ran, got)
	}
}
