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

// KeepLanguage sets a cookie in which the browser keeps a language for the host of the request. It ignores anything but
// a language of the pages. Scripts may read and change the cookie, because the language switch in a page works without
// a request.
func KeepLanguage(at *site.Address, w http.ResponseWriter, lang string) {
	if words.Known(lang) {
		http.SetCookie(w, &http.Cookie{
			Name: site.LanguageCookie, Value: lang, Path: "/", MaxAge: languageAge,
			SameSite: http.SameSiteLaxMode, Secure: at.IsHTTPS(),
		})
	}
}

// SwitchLanguage answers the form of the language switch, which browsers without scripts send.
// It keeps the field lang and leads back to the local path in the field return. The answer reveals nothing about the
// host or its user, so no session is needed.
func SwitchLanguage(at *site.Address, w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		problem.Method.With("problem.use_post", nil).Write(w, r)
	case at.CrossOrigin(r):
		problem.CrossSite.With("problem.cross_site_language", nil).Write(w, r)
	default:
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		KeepLanguage(at, w, r.PostFormValue("lang"))
		site.Redirect(w, site.LocalPath(r.PostFormValue("return")), http.StatusSeeOther)
	}
}

// maxForm bounds the forms of pages, in bytes. An address can be long.
const maxForm = 64 << 10
