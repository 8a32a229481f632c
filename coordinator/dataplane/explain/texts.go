package explain

import (
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/words"
)

// since adds the time since which a sentence has been true, if that is known.
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

// clock formats a time for a sentence.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
