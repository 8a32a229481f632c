package launch

import (
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/codehub/gateway/coordinator/workspace"
)

// maxHostname is the longest label of a host name (RFC 1123).
const maxHostname = 63

// The Latin letters for Korean ones, in the order of Unicode's conjoining jamo: initial consonants, vowels, final
// consonants. They follow the official romanisation letter by letter, without the sound changes that neighbouring
// letters cause.
var (
	initials = strings.Split("g kk n d tt r m b pp s ss  j jj ch k t p h", " ")
	vowels   = strings.Split("a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i", " ")
	finals   = strings.Split("k k k n n n t l k m l l l p l m p p t t ng t t k t p t", " ")
)

const firstInitial, firstVowel, firstFinal = 'ᄀ', 'ᅡ', 'ᆨ'

// hostname returns a readable host name for a workspace: its name in lower-case Latin letters, digits and hyphens. If
// no letter is left, or the result is "localhost", it returns the container's name.
func hostname(w workspace.Workspace) string {
	var b strings.Builder
	letters := false
	for _, r := range norm.NFKD.String(w.Name) {
		text := latin(unicode.ToLower(r))
		switch {
		case text != "":
			letters = letters || text[0] >= 'a'
			b.WriteString(text)
		case unicode.Is(unicode.Mn, r) || r == 'ᄋ': // an accent; a consonant without a sound
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	name := strings.Trim(b.String(), "-")
	if len(name) > maxHostname {
		name = strings.TrimRight(name[:maxHostname], "-")
	}
	if !letters || name == "localhost" {
		return w.ID.ContainerName()
	}
	return name
}

// latin returns the Latin letters for a character, if any.
func latin(r rune) string {
	switch {
	case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
		return string(r)
	case r >= firstInitial && int(r-firstInitial) < len(initials):
		return initials[r-firstInitial]
	case r >= firstVowel && int(r-firstVowel) < len(vowels):
		return vowels[r-firstVowel]
	case r >= firstFinal && int(r-firstFinal) < len(finals):
		return finals[r-firstFinal]
	}
	return ""
}
