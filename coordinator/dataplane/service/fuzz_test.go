package service

import (
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
)

// FuzzGitURL asserts that an address that an image gives to git never holds an option, a secret, another transport, or
// a hidden character.
func FuzzGitURL(f *testing.F) {
	for _, v := range []string{"https://git.example/a.git", "ssh://git@git.example:22/a", "git@git.example:team/a.git", "-oProxyCommand=x",
		"https://user:secret@git.example/a", "ext::sh -c x", "file:///etc", "https://git.example/a?token=x", "ssh://-oX/a", "a@-b:c", "a@b:-c", "ssh://a@b/../c"} {
		f.Add(v)
	}
	images := launch.Catalog{{Reference: "image", Git: true}}
	f.Fuzz(func(t *testing.T, v string) {
		clean, err := cleanGitURL(v, "image", images)
		if err != nil || clean == "" {
			return
		}
		if strings.HasPrefix(clean, "-") || strings.Contains(clean, "::") && !strings.Contains(clean, "[") ||
			strings.ContainsFunc(clean, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
			t.Errorf("%q is taken", clean)
		}
		u, err := url.Parse(clean)
		if err == nil && u.Scheme != "" && u.Host != "" {
			if _, password := u.User.Password(); password || u.Scheme != "https" && u.Scheme != "ssh" || u.RawQuery != "" ||
				strings.HasPrefix(u.Host, "-") || u.Scheme == "https" && u.User != nil {
				t.Errorf("%q is taken", clean)
			}
		} else if at, rest, ok := strings.Cut(clean, "@"); !ok || at == "" || strings.HasPrefix(rest, "-") || strings.Contains(rest, ":-") && strings.Index(rest, ":-") == strings.Index(rest, ":") {
			t.Errorf("%q is taken", clean)
		}
		if again, err := cleanGitURL(clean, "image", images); err != nil || again != clean {
			t.Errorf("%q becomes %q, %v", clean, again, err)
		}
	})
}

// FuzzCursor asserts that every accepted cursor is one that this list has returned.
func FuzzCursor(f *testing.F) {
	filter := store.Filter{Order: store.ByName}
	f.Add(formatCursor(store.Cursor{Key: "a name", ID: "0a1b2c3d"}, filter))
	for _, text := range []string{"", "e30", "bnVsbA", "!", "eyJsIjoxfQ"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text, filter)
		if err != nil || c == nil {
			return
		}
		again, err := parseCursor(formatCursor(*c, filter), filter)
		if err != nil || *again != *c {
			t.Errorf("%q is %+v, which is given out as %+v, %v", text, c, again, err)
		}
	})
}
