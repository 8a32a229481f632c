package contract

import "testing"

// TestMetaSizes: it is enough if one of the two places has the sizes. The user metadata takes precedence, and an
// invalid size is unknown.
func TestMetaSizes(t *testing.T) {
	both := func(text string) map[string]string {
		return map[string]string{MetaArchiveSize: text, MetaContentSize: text}
	}
	for name, c := range map[string]struct {
		metadata         map[string]string
		contentType      string
		archive, content int64
	}{
		"in the content type":      {nil, MetaContentType(7, 1<<40), 7, 1 << 40},
		"in the user metadata":     {both("8"), "text/plain", 8, 8},
		"in both":                  {both("8"), MetaContentType(7, 9), 8, 8},
		"one in each":              {map[string]string{MetaArchiveSize: "8"}, MetaContentType(7, 9), 8, 9},
		"in neither":               {nil, "text/plain", 0, 0},
		"another parameter":        {nil, "text/plain; charset=utf-8", 0, 0},
		"no content type":          {nil, "", 0, 0},
		"unknown sizes":            {nil, MetaContentType(0, 0), 0, 0},
		"no numbers":               {both("many"), "text/plain; archive-size=x; content-size=-1", 0, 0},
		"a malformed content type": {nil, "text/plain; archive-size=7; content-size", 0, 0},
	} {
		if archive, content := MetaSizes(c.metadata, c.contentType); archive != c.archive || content != c.content {
			t.Errorf("%s: %d and %d, want %d and %d", name, archive, content, c.archive, c.content)
		}
	}
}
