package web

import (
	"strings"
	"unicode"
)

// Particle returns the Korean particle that follows a word, such as the name of a
// workspace: closed after a syllable that ends in a consonant, open after any other, as
// with Particle(name, "을", "를"). Where nobody can tell how the word is read, it is both,
// "을(를)", as people write then.
func Particle(word, closed, open string) string {
	switch endingOf(word) {
	case endsOpen:
		return open
	case endsClosed:
		return closed
	}
	return closed + "(" + open + ")"
}

// ending is the end of a word as it is read in Korean.
type ending uint8

const (
	endsUnknown ending = iota
	endsOpen           // in a vowel
	endsClosed         // in a consonant
)

// digitEndings are those of the digits as numbers are read: 영, 일, 이, 삼, … A number
// that ends in zeros ends in 십, 백, 천 or 만, which are closed as 영 is.
var digitEndings = [...]ending{endsClosed, endsClosed, endsOpen, endsClosed, endsOpen, endsOpen, endsClosed, endsClosed, endsClosed, endsOpen}

// endingOf returns how a word ends. Punctuation at the end is not read.
func endingOf(word string) ending {
	word = strings.TrimRightFunc(word, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	runes := []rune(word)
	if len(runes) == 0 {
		return endsUnknown
	}
	switch last := runes[len(runes)-1]; {
	case last >= '가' && last <= '힣':
		// A syllable's last part is its position among the 28 that share the others: 0 is
		// none.
		if (last-'가')%28 == 0 {
			return endsOpen
		}
		return endsClosed
	case last >= '0' && last <= '9':
		return digitEndings[last-'0']
	case last <= unicode.MaxASCII:
		return latinEnding(runes)
	}
	return endsUnknown
}

// latinEnding returns how the Latin letters at the end of a word are read. An
// abbreviation is read letter by letter: L, M, N and R are 엘, 엠, 엔 and 알. Other words are
// read by the rules for foreign words: a final l, m, n or ng closes the syllable, p, t and k
// do after a short vowel, and every other consonant gets a vowel of its own (패스, 도커).
func latinEnding(runes []rune) ending {
	start := len(runes)
	for start > 0 && runes[start-1] <= unicode.MaxASCII && unicode.IsLetter(runes[start-1]) {
		start--
	}
	original := string(runes[start:])
	s := strings.ToLower(original)
	last := s[len(s)-1]
	if !strings.ContainsAny(s, "aeiouy") || len(s) > 1 && original == strings.ToUpper(original) || len(s) == 1 {
		switch last {
		case 'l', 'm', 'n', 'r':
			return endsClosed
		}
		return endsOpen
	}
	vowel := func(at int) bool { return at >= 0 && strings.IndexByte("aeiou", s[at]) >= 0 }
	if n := len(s); s[n-1] == s[n-2] && !vowel(n-1) {
		s = s[:n-1] // app is read as ap
	}
	n := len(s)
	if last == 'e' && n > 2 && !vowel(n-2) { // it is silent
		switch s[n-2] {
		case 'l', 'm', 'n':
			return endsClosed // file, table, home, line
		}
		return endsOpen
	}
	switch last {
	case 'l', 'm', 'n':
		return endsClosed
	case 'g':
		if n > 1 && s[n-2] == 'n' {
			return endsClosed
		}
	case 'p', 't', 'k':
		if n > 2 && s[n-2] == 'c' && vowel(n-3) && last == 'k' {
			return endsClosed // stack
		}
		if strings.HasSuffix(s, "ook") || vowel(n-2) && !vowel(n-3) {
			return endsClosed // notebook, app, git
		}
	case 'b':
		if strings.HasSuffix(s, "web") || strings.HasSuffix(s, "lab") {
			return endsClosed
		}
	}
	return endsOpen
}
