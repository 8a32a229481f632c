package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"golang.org/x/text/language"
)

// Text is a text in every language of the pages: English and Korean.
type Text struct{ En, Ko string }

// In returns the text in a language: "en" or "ko".
func (t Text) In(lang string) string {
	if lang == "ko" {
		return t.Ko
	}
	return t.En
}

var (
	pageLanguages   = []string{"en", "ko"} // the first is the default
	languageMatcher = language.NewMatcher([]language.Tag{language.English, language.Korean})
)

// Language returns the language that the user has chosen, else the one that the
// browser prefers: "en" or "ko".
func Language(r *http.Request) string {
	chosen := Cookie(r.Header, languageCookie)
	for _, lang := range pageLanguages {
		if chosen == lang {
			return lang
		}
	}
	_, i := language.MatchStrings(languageMatcher, r.Header.Get("Accept-Language"))
	return pageLanguages[i]
}

// SendPage executes the template and sends the result as a page with the given
// Content-Security-Policy. Pages are never cached, because they depend on who is
// signed in and in which language. It returns an error, and has sent nothing, when
// the template fails.
func SendPage(w http.ResponseWriter, r *http.Request, status int, policy string, t *template.Template, data any) error {
	var body bytes.Buffer
	if err := t.Execute(&body, data); err != nil {
		return fmt.Errorf("rendering the page %s: %w", t.Name(), err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Add("Vary", "Accept-Language, Cookie")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body.Bytes()) // fails only when the client has gone
	}
	return nil
}
