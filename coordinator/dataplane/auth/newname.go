package auth

import (
	"strings"
	"unicode"

	"github.com/codehub/gateway/coordinator/words"
)

// mixes are the scripts that people write together. The name of a new user has letters of one of
// them, or of one script alone, as "highly restrictive" of Unicode's UTS 39. Without that, an
// admin with a Cyrillic a could stand beside the admin.
//
// A name wholly of one script passes, also where it looks like a Latin one. Сара and Хор are
// names, and nothing but the look tells them from a trick. Names give no rights, so it is for the
// people who read a list of users to ask.
var mixes = [][]*unicode.RangeTable{
	{unicode.Latin, unicode.Han, unicode.Hiragana, unicode.Katakana},
	{unicode.Latin, unicode.Han, unicode.Bopomofo},
	{unicode.Latin, unicode.Han, unicode.Hangul},
}

// unseen are characters that count as visible, but of which nothing is seen: a name with
// one of them looks like the name without it.
var unseen = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// checkNewName is [checkUsername] for a user who is added. Users who have another name
// already keep it.
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

// written reports whether all letters of a name are of these scripts. Digits, punctuation
// and accents go with each.
func written(name string, scripts ...*unicode.RangeTable) bool {
	return !strings.ContainsFunc(strings.TrimSpace(name), func(r rune) bool {
		return !unicode.In(r, scripts...) && !unicode.In(r, unicode.Common, unicode.Inherited)
	})
}
