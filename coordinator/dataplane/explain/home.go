package explain

import (
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The codes of [Explanation.Home].
const (
	CodeHomeSize  = "HomeSize"
	CodeHomeLarge = "HomeLarge"
)

// home says how much a home holds, or nil while that is not known.
func home(h workspace.HomeSize, warn int64) *Statement {
	if h.MeasuredAt.IsZero() {
		return nil
	}
	s := Statement{Code: CodeHomeSize, At: h.MeasuredAt}
	key := "explain.home.holds"
	if h.AtLeast {
		key = "explain.home.at_least"
	}
	s.Text = words.Of(key, words.Values{"Size": size(h.Bytes), "Count": h.Files, "At": clock(h.MeasuredAt)})
	if LargeHome(h, warn) {
		s.Code = CodeHomeLarge
		s.Text = words.Join(s.Text, " ", words.Of("explain.home.large", words.Values{"Warn": size(warn)}))
	}
	return &s
}

// LargeHome reports whether a home has reached the size at which its owner is told that it is large. If that size is 0,
// the owner is never told.
func LargeHome(h workspace.HomeSize, warn int64) bool { return warn > 0 && h.Bytes >= warn }
