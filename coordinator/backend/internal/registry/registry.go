// Package registry interprets the message of an engine or a node about an image that could not be pulled: the cause,
// and whether another attempt may succeed. It is pure.
package registry

import (
	"regexp"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Verdict is the meaning of a failed pull.
type Verdict int

// The verdicts. A failure is permanent only if a registry or an engine has answered definitely.
const (
	// Temporary: the next attempt may succeed.
	Temporary Verdict = iota
	// Absent: the registry does not have the image, or not for this platform.
	Absent
	// Denied: the registry does not give this installation the image.
	Denied
	// Invalid: no image can have that name.
	Invalid
)

// The message contains the image's name. None of the phrases can occur in that name, because it contains no blank, and
// so no colon before a blank.
var (
	throttled = regexp.MustCompile(`(?im)(^|: )toomanyrequests(: |$)|too many requests|\brate limit\b|` + status + `429\b`)
	broken    = regexp.MustCompile(`(?i)\b5\d\d (internal server error|bad gateway|service unavailable|gateway time-?out)|` +
		status + `5\d\d\b`)
	late = regexp.MustCompile(`(?i)deadline exceeded|\btime-?out\b|\btimed out\b|got no further for`)
	away = regexp.MustCompile(`(?i)no such host|server misbehaving|name resolution|connection (refused|reset)|` +
		`no route to host|network is (unreachable|down)|host is (unreachable|down)|broken pipe|unexpected EOF|: EOF\b`)

	absent = regexp.MustCompile(`(?i): not found\b|manifest unknown|\bname unknown\b|repository name not known|` +
		`\bmanifest for \S+ not found|no match(ing manifest)? for |does not match the specified platform|` +
		`cannot be used on this platform|code = NotFound|` + status + `404\b`)
	denied = regexp.MustCompile(`(?im)\b401 unauthorized|\b403 forbidden|` + status + `40[13]\b|` +
		`code = (Unauthenticated|PermissionDenied)|(^|: )(unauthorized|denied)(: |$)|pull access denied|` +
		`insufficient_scope|authorization failed|authentication required|no basic auth credentials`)
	invalid = regexp.MustCompile(`(?i)invalid (reference|tag) format|invalid repository name|could not parse reference|` +
		`repository name must be lowercase|: invalid name\b`)
)

// status is what precedes an HTTP status code in a message.
const status = `\b(?:status(?: ?code)?|http)[:=]? `

// Judge returns the meaning of a failed pull, from its message.
func Judge(message string) Verdict {
	switch {
	case throttled.MatchString(message), broken.MatchString(message):
		return Temporary // perhaps from the server that grants access
	case absent.MatchString(message):
		return Absent
	case denied.MatchString(message):
		return Denied
	case invalid.MatchString(message):
		return Invalid
	}
	return Temporary
}

// Cause returns why a pull has failed for now, one of the causes of [workspace.Waiting].
func Cause(message string) string {
	switch {
	case throttled.MatchString(message):
		return workspace.CauseRateLimit
	case broken.MatchString(message):
		return workspace.CauseServerError
	case late.MatchString(message):
		return workspace.CauseTimeout
	case away.MatchString(message):
		return workspace.CauseUnreachable
	}
	return workspace.CauseUnknown
}
