package web

import (
	"html/template"
	"net/http"
	"slices"

	"golang.org/x/text/language"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
)

// BothLanguages puts a text into a page in every language and lets the style sheet
// show one, so that switching the language needs no request.
func BothLanguages(t explain.Text) template.HTML {
	return template.HTML(`<span class="en" lang="en">` + template.HTMLEscapeString(t.En) + //nolint:gosec // escaped
		`</span><span class="ko" lang="ko">` + template.HTMLEscapeString(t.Ko) + `</span>`)
}

var (
	pageLanguages   = []string{"en", "ko"} // the first is the default
	languageMatcher = language.NewMatcher([]language.Tag{language.English, language.Korean})
)

// LanguagePath is where the language switch of a page sends its form when the page
// cannot switch by itself. It exists on the main site and on every workspace's host.
const LanguagePath = site.OwnPath + "language"

// languageAge is how long a chosen language lasts, in seconds.
const languageAge = 365 * 24 * 60 * 60

// Language returns the language that the user has chosen, else the one that the
// browser prefers: "en" or "ko".
func Language(r *http.Request) string {
	if chosen := ChosenLanguage(r); chosen != "" {
		return chosen
	}
	_, i := language.MatchStrings(languageMatcher, r.Header.Get("Accept-Language"))
	return pageLanguages[i]
}

// ChosenLanguage returns the language that the user has chosen with the switch, "" when
// none was.
func ChosenLanguage(r *http.Request) string {
	if chosen := site.Cookie(r.Header, site.LanguageCookie); slices.Contains(pageLanguages, chosen) {
		return chosen
	}
	return ""
}

// KeepLanguage makes the browser keep a language for the host of the request. Anything
// but a language of the pages is ignored. Scripts may read the cookie and change it: the
// switch works without a request.
func KeepLanguage(at *site.Address, w http.ResponseWriter, lang string) {
	if slices.Contains(pageLanguages, lang) {
		http.SetCookie(w, &http.Cookie{
			Name: site.LanguageCookie, Value: lang, Path: "/", MaxAge: languageAge,
			SameSite: http.SameSiteLaxMode, Secure: at.IsHTTPS(),
		})
	}
}

// SwitchLanguage answers the form of the language switch, which browsers without scripts
// send: it keeps the field lang and leads back to the local path in the field return. It
// tells nothing about the host or its user, so it needs no session.
func SwitchLanguage(at *site.Address, w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		problem.Method.With("Use POST.").Write(w)
	case at.CrossOrigin(r):
		problem.CrossSite.With("A page of another origin must not choose the language.").Write(w)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		KeepLanguage(at, w, r.PostFormValue("lang"))
		site.Redirect(w, site.LocalPath(r.PostFormValue("return")), http.StatusSeeOther)
	}
}

// maxForm bounds the forms of pages, in bytes. An address can be long.
const maxForm = 64 << 10
