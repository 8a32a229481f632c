package service

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The maximum length of each field, in characters.
const (
	MaxName        = 255
	MaxDescription = 2_000
	MaxMemo        = 10_000
	MaxImageRef    = 512
)

// clean returns the input in its stored form, or [*InvalidError] for the first invalid field.
func (in CreateInput) clean(images launch.Catalog, a Actor) (CreateInput, error) {
	var err error
	if in.Name, err = cleanName(in.Name); err != nil {
		return in, err
	}
	if in.Description, err = cleanProse("description", in.Description, MaxDescription); err != nil {
		return in, err
	}
	if in.Memo, err = cleanProse("memo", in.Memo, MaxMemo); err != nil {
		return in, err
	}
	in.DesiredState = cmp.Or(in.DesiredState, workspace.DesiredRunning)
	if err := checkDesired(in.DesiredState); err != nil {
		return in, err
	}
	if in.ImageRef, err = cleanImageRef(in.ImageRef, images, a); err != nil {
		return in, err
	}
	in.GitURL, err = cleanGitURL(in.GitURL, in.ImageRef, images)
	return in, err
}

// checkDesired checks a desired state from a user.
func checkDesired(d workspace.DesiredState) error {
	switch d {
	case workspace.DesiredArchived, workspace.DesiredStandby, workspace.DesiredRunning:
		return nil
	}
	return &InvalidError{"desired_state", words.Of("problem.rule.desired_state", nil)}
}

// clean does the same for the fields that the patch changes.
func (p Patch) clean(images launch.Catalog, a Actor) (Patch, error) {
	clean := func(field **string, check func(string) (string, error)) error {
		if *field == nil {
			return nil
		}
		v, err := check(**field)
		*field = &v
		return err
	}
	if err := clean(&p.Name, cleanName); err != nil {
		return p, err
	}
	if err := clean(&p.Description, func(v string) (string, error) {
		return cleanProse("description", v, MaxDescription)
	}); err != nil {
		return p, err
	}
	if err := clean(&p.Memo, func(v string) (string, error) { return cleanProse("memo", v, MaxMemo) }); err != nil {
		return p, err
	}
	if err := clean(&p.ImageRef, func(v string) (string, error) { return cleanImageRef(v, images, a) }); err != nil {
		return p, err
	}
	if p.DesiredState != nil {
		return p, checkDesired(*p.DesiredState)
	}
	return p, nil
}

// cleanName trims and checks a name, which lists and logs show in one line.
func cleanName(v string) (string, error) {
	if !utf8.ValidString(v) {
		return v, &InvalidError{"name", words.Of("problem.rule.utf8", nil)}
	}
	v = strings.TrimSpace(v)
	if n := utf8.RuneCountInString(v); n < 1 || n > MaxName {
		return v, &InvalidError{"name", words.Of("problem.rule.length", words.Values{"Max": MaxName, "Given": n})}
	}
	visible := false
	for _, r := range v {
		if deceptive(r) || invisible(r) && !joins(r) && !blank(r) || r == '\u2028' || r == '\u2029' {
			return v, &InvalidError{"name", controlCharacter(r)}
		}
		visible = visible || unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) && !blank(r)
	}
	if !visible {
		return v, &InvalidError{"name", words.Of("problem.rule.visible", nil)}
	}
	return v, nil
}

// controlCharacter says that a text must not contain r.
func controlCharacter(r rune) words.Text {
	return words.Of("problem.rule.control", words.Values{"Character": fmt.Sprintf("%U", r)})
}

// invisible reports whether r only formats the characters around it.
func invisible(r rune) bool { return unicode.Is(unicode.Cf, r) }

// joins reports whether r is an invisible character that names need: it joins or separates letters of Persian and Indic
// scripts, or forms emoji.
func joins(r rune) bool {
	return r == '\u200c' || r == '\u200d' || r >= '\U000E0020' && r <= '\U000E007F'
}

// blank reports whether r is a letter or symbol that looks empty: the Hangul fillers and the empty Braille pattern.
func blank(r rune) bool {
	return r == '\u115f' || r == '\u1160' || r == '\u3164' || r == '\uffa0' || r == '\u2800'
}

// deceptive reports whether r is a control character or changes the text direction, either of which can make one name
// look like another.
func deceptive(r rune) bool {
	return unicode.IsControl(r) || (r >= '\u202a' && r <= '\u202e') || (r >= '\u2066' && r <= '\u2069')
}

// cleanProse checks text that may have several lines.
func cleanProse(field, v string, limit int) (string, error) {
	if !utf8.ValidString(v) {
		return v, &InvalidError{field, words.Of("problem.rule.utf8", nil)}
	}
	if n := utf8.RuneCountInString(v); n > limit {
		return v, &InvalidError{field, words.Of("problem.rule.at_most", words.Values{"Max": limit, "Given": n})}
	}
	for _, r := range v {
		if deceptive(r) && r != '\n' && r != '\r' && r != '\t' {
			return v, &InvalidError{field, controlCharacter(r)}
		}
	}
	return v, nil
}

// cleanImageRef checks that v names a configured image; empty means the default one. An administrator may also give a
// reference. Users may not: a reference can make the container engine contact any address, and the answers reveal which
// addresses exist.
func cleanImageRef(v string, images launch.Catalog, a Actor) (string, error) {
	v = strings.TrimSpace(v)
	if len(v) > MaxImageRef {
		return v, &InvalidError{"image_ref", words.Of("problem.rule.at_most_characters", words.Values{"Max": MaxImageRef})}
	}
	if _, ok := images.Find(v); ok || v == "" {
		return v, nil
	}
	if a.Admin && launch.IsReference(v) && launch.CheckReference(v) == nil {
		return v, nil
	}
	return v, &ImageError{Names: images.Names(), Free: a.Admin}
}
