package site

import (
	"net/http"

	"github.com/codehub/gateway/coordinator/words"
)

// Language returns the code of the language that the user has chosen. If the user has chosen none, it returns the
// language that the browser prefers.
func Language(r *http.Request) string {
	if chosen := ChosenLanguage(r); chosen != "" {
		return chosen
	}
	return words.Match(r.Header.Get("Accept-Language"))
}

// ChosenLanguage returns the language that the user has chosen with the switch, "" when
// none was.
func ChosenLanguage(r *http.Request) string {
	if chosen := Cookie(r.Header, LanguageCookie); words.Known(chosen) {
		return chosen
	}
	return ""
}
