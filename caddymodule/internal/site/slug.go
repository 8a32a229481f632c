package site

import "strings"

// longestSlug is the maximum length of a slug. A label of a host name may have 63 characters, so two slugs and the
// hyphens between them fit in one label.
const longestSlug = 30

// Slug returns the form of a name in the host {name}--{user}. It consists of the name's ASCII letters, in lower case,
// and digits. A single hyphen replaces everything between them. It is empty if the name has no such character, and
// there is no such host then.
func Slug(name string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			if gap && b.Len() > 0 {
				b.WriteByte('-')
			}
			if gap = false; b.Len() >= longestSlug {
				return strings.TrimRight(b.String()[:longestSlug], "-")
			}
			b.WriteRune(r)
		default:
			gap = true
		}
	}
	return b.String()
}

// Alias returns the first label of the host that leads to a workspace by its name, "" if
// there is none.
func Alias(name, user string) string {
	first, second := Slug(name), Slug(user)
	if first == "" || second == "" {
		return ""
	}
	return first + hostJoint + second
}
