package service

import (
	"errors"
	"testing"
)

// An invisible name looks like any other invisible name, and cannot be clicked.
func TestNamesCanBeSeen(t *testing.T) {
	for _, name := range []string{
		"\u200b", "\u2060\ufeff", "\u200d", "\u3164", "\u115f\u1160", "\uffa0", "\u2800\u2800", "\u00ad", "\u0301", "\ufe0f", "\u00a0\u2003",
		"a\u200bb", "a\u202eb", "a\u200eb", "a\u061cb", "\u2066a\u2069", "a\ufeff",
	} {
		var invalid *InvalidError
		if got, err := cleanName(name); !errors.As(err, &invalid) || invalid.Field != "name" {
			t.Errorf("%+q passes as %+q: %v", name, got, err)
		}
	}
	for _, name := range []string{"a", "프로젝트", "한 글", "می\u200cخواهم", "👩\u200d💻", "👍🏽", "❤\ufe0f", "é", "日本語", "-", "#1", "a\u3164b"} {
		if got, err := cleanName(name); err != nil || got != name {
			t.Errorf("%+q: %q, %v", name, got, err)
		}
	}
}
