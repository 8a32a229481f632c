package auth

import (
	"strings"
	"unicode"

	"github.com/codehub/gateway/coordinator/words"
)

// mixes are the scripts that people combine. All letters of a new user's name must belong to one of these sets, or to a
// single script. This corresponds to the level "highly restrictive" of Unicode's UTS 39. Without the rule, a user named
// admin with a Cyrillic a could appear beside the user admin.
//
// A name in a single script passes even if it looks like a Latin one. Сара and Хор are real names, which cannot be told
// from such a trick. Names give no rights, so readers of a list of users must be careful themselves.
var mixes = [][]*unicode.RangeTable{
	{unicode.Latin, unicode.Han, unicode.Hiragana, unicode.Katakana},
	{unicode.Latin, unicode.Han, unicode.Bopomofo},
	{unicode.Latin, unicode.Han, unicode.Hangul},
}

// unseen are characters that count as printable but show nothing. A name with one of them looks like the name without
// it.
var unseen = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// checkNewName is [checkUsername] for a new user. Existing users keep names that it would refuse.
func checkNewName(username string) error {
	if err := checkUsername(username); err != nil {
		return err
	}
	if strings.ContainsFunc(username, func(r rune) bool { return unicode.In(r, unseen...) || r == '\u2800' }) {
		return &InvalidError{"username", words.Of("problem.rule.unseen", nil)}
	}
	for _, scripts := range mixes {
		if written(username, scripts...) {
			return nil
		}
	}
	for _, script := range unicode.Scripts {
		if written(username, script) {
			return nil
		}
	}
	return &InvalidError{"username", words.Of("problem.rule.scripts", nil)}
}

// written reports whether all letters of a name belong to these scripts. Digits, punctuation and accents may be
// combined with every script.
func written(name string, scripts ...*unicode.RangeTable) bool {
	return !strings.ContainsFunc(strings.TrimSpace(name), func(r rune) bool {
		return !unicode.In(r, scripts...) && !unicode.In(r, unicode.Common, unicode.Inherited)
	})
}
