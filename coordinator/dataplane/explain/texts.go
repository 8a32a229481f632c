package explain

import (
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/words"
)

// since appends a time to a sentence without one.
func since(sentence words.Text, from time.Time) words.Text {
	if from.IsZero() {
		return sentence
	}
	open := make(words.Text, len(sentence))
	for code, s := range sentence {
		open[code] = strings.TrimSuffix(s, ".")
	}
	return words.Of("explain.since", words.Values{"Sentence": open, "At": clock(from)})
}

// clock is how sentences name a time.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
