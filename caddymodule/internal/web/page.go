package web

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
)

// SendPage executes the template and sends the result as a page with the given
// Content-Security-Policy. Pages are never cached, because they depend on the signed-in user and
// the language. It returns an error, and has sent nothing, when the template fails.
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
