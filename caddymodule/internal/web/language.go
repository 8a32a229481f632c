package web

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/words"
)

// LanguagePath is where the language switch of a page sends its form when the page
// cannot switch by itself. It exists on the main site and on every workspace's host.
const LanguagePath = site.OwnPath + "language"

// languageAge is how long a chosen language lasts, in seconds.
const languageAge = 365 * 24 * 60 * 60

// Language returns the code of the language that the user has chosen, else of the one that the
// browser prefers.
func Language(r *http.Request) string {
	if chosen := ChosenLanguage(r); chosen != "" {
		return chosen
	}
	return words.Match(r.Header.Get("Accept-Language"))
}

// ChosenLanguage returns the language that the user has chosen with the switch, "" when
// none was.
func ChosenLanguage(r *http.Request) string {
	if chosen := site.Cookie(r.Header, site.LanguageCookie); words.Known(chosen) {
		return chosen
	}
	return ""
}

// KeepLanguage makes the browser keep a language for the host of the request. Anything
// but a language of the pages is ignored. Scripts may read the cookie and change it: the
// switch works without a request.
func KeepLanguage(at *site.Address, w http.ResponseWriter, lang string) {
	if words.Known(lang) {
		http.SetCookie(w, &http.Cookie{
			Name: site.LanguageCookie, Value: lang, Path: "/", MaxAge: languageAge,
			SameSite: http.SameSiteLaxMode, Secure: at.IsHTTPS(),
		})
	}
}

// SwitchLanguage answers the form of the language switch, which browsers without scripts send.
// It keeps the field lang and leads back to the local path in the field return. It tells
// nothing about the host or its user, so it needs no session.
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
