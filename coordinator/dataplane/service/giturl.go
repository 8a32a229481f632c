package service

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/words"
)

// MaxGitURL is the maximum length of a repository's address, in characters.
const MaxGitURL = 1_000

var (
	// gitUser and gitHost do not begin with a hyphen: programs would mistake such a name for an option.
	gitUser = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._+-]*$`)
	gitHost = regexp.MustCompile(`^[\pL\pN_:][\pL\pN._:-]*$`)
	// gitShort is the scp form user@host:path.
	gitShort = regexp.MustCompile(`^([^@:/]+)@([^@:/]+):([^-].*)$`)
)

// cleanGitURL checks the address of the repository that the image of a new workspace clones; empty means none. The
// address must not contain a password or a token, because everything in the workspace and every administrator can read
// it.
func cleanGitURL(v, imageRef string, images launch.Catalog) (string, error) {
	if utf8.RuneCountInString(v) > MaxGitURL {
		return v, &InvalidError{"git_url",
			words.Of("problem.rule.at_most_characters", words.Values{"Max": MaxGitURL})}
	}
	v = strings.TrimSpace(v)
	if v == "" {
		return "", nil
	}
	rule := ""
	hidden := func(r rune) bool { return unicode.IsSpace(r) || deceptive(r) || invisible(r) }
	image, _ := images.Find(imageRef) // another reference is of an image that is not known to clone
	switch {
	case !utf8.ValidString(v):
		rule = "utf8"
	case strings.ContainsFunc(v, hidden):
		rule = "spaces"
	case !image.Git:
		rule = "git_image"
	default:
		rule = gitRule(v)
	}
	if rule != "" {
		return v, &InvalidError{"git_url", words.Of("problem.rule."+rule, nil)}
	}
	return v, nil
}

// gitRule returns the rule that the address of a repository breaks, or "".
func gitRule(v string) string {
	if m := gitShort.FindStringSubmatch(v); m != nil {
		if gitUser.MatchString(m[1]) && gitHost.MatchString(m[2]) {
			return ""
		}
		return "git_address"
	}
	u, err := url.Parse(v)
	if err != nil || !strings.HasPrefix(v, "https://") && !strings.HasPrefix(v, "ssh://") ||
		!gitHost.MatchString(u.Hostname()) || strings.Trim(u.Path, "/") == "" {
		return "git_address"
	}
	_, password := u.User.Password()
	if password || u.User != nil && u.Scheme == "https" || u.RawQuery != "" || u.Fragment != "" {
		return "git_credentials"
	}
	if u.User != nil && !gitUser.MatchString(u.User.Username()) {
		return "git_address"
	}
	return ""
}
