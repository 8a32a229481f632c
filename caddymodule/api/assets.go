package codehub

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/coordinator/auth"
)

// assetPath is below what the pages' scripts, styles and pictures are served. Their
// names carry a hash of their content, so browsers keep them for good.
const assetPath = "/assets/"

// contentPolicy lets pages use their own scripts and styles and nothing else:
// nothing inline, nothing from other hosts, not inside a frame.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

//go:embed web
var webFiles embed.FS

// assetNames are the embedded assets. One that names another (as /assets/NAME)
// comes after it, because its own hash depends on the other's.
var assetNames = []string{"style.css", "icon.svg", "text.js", "login.js", "dashboard.js"}

// site is the embedded pages and assets, ready to be served.
type site struct {
	assets           map[string]asset // by path
	dashboard, login *template.Template
}

type asset struct {
	body        []byte
	contentType string
}

// loadSite reads the embedded files once per process.
var loadSite = sync.OnceValues(func() (*site, error) {
	s := &site{assets: make(map[string]asset)}
	hashed := make(map[string]string)
	for _, name := range assetNames {
		body, err := webFiles.ReadFile("web/" + name)
		if err != nil {
			return nil, fmt.Errorf("reading an embedded asset: %w", err)
		}
		for plain, withHash := range hashed {
			body = bytes.ReplaceAll(body, []byte(`"`+assetPath+plain+`"`), []byte(`"`+withHash+`"`))
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		hashed[name] = assetPath + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		s.assets[hashed[name]] = asset{body, mime.TypeByExtension(ext)}
	}
	funcs := template.FuncMap{"asset": func(name string) (string, error) {
		if p, ok := hashed[name]; ok {
			return p, nil
		}
		return "", fmt.Errorf("no asset %q", name)
	}}
	parse := func(name string) (*template.Template, error) {
		return template.New(name).Funcs(funcs).ParseFS(webFiles, "web/"+name)
	}
	var errs [2]error
	s.dashboard, errs[0] = parse("dashboard.html")
	s.login, errs[1] = parse("login.html")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("reading the embedded pages: %w", err)
	}
	return s, nil
})

// serveAsset serves an asset by its hashed name.
func (s *site) serveAsset(w http.ResponseWriter, r *http.Request) error {
	a, ok := s.assets[r.URL.Path]
	if !ok {
		return caddyhttp.Error(http.StatusNotFound, fmt.Errorf("no asset at %s", r.URL.Path))
	}
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(a.body)
	return err
}

// servePage renders a page. Pages are never kept: they depend on who is signed in.
func servePage(w http.ResponseWriter, r *http.Request, t *template.Template, data any) error {
	var body bytes.Buffer
	if err := t.Execute(&body, data); err != nil {
		return caddyhttp.Error(http.StatusInternalServerError, fmt.Errorf("rendering a page: %w", err))
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	if r.Method == http.MethodHead {
		return nil
	}
	_, err := w.Write(body.Bytes())
	return err
}

// dashboardPage serves the list of workspaces to who is signed in, and sends
// everybody else to the login page.
func (a *API) dashboardPage(w http.ResponseWriter, r *http.Request) error {
	if err := a.ready(r.Context()); err != nil {
		return unavailable(err)
	}
	user, err := sessionUser(a.app, r)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		redirect(w, "/login", http.StatusSeeOther)
		return nil
	case err != nil:
		return unavailable(err)
	}
	return servePage(w, r, a.site.dashboard, bodyOf(user))
}

// loginPage serves the sign-in form, or goes where it would lead to when somebody
// is signed in already.
func (a *API) loginPage(w http.ResponseWriter, r *http.Request) error {
	to := localPath(r.URL.Query().Get("return"))
	if err := a.ready(r.Context()); err != nil {
		return unavailable(err)
	}
	_, err := sessionUser(a.app, r)
	switch {
	case err == nil:
		redirect(w, to, http.StatusSeeOther)
		return nil
	case !errors.Is(err, auth.ErrNoSession):
		return unavailable(err)
	}
	return servePage(w, r, a.site.login, struct{ Return string }{to})
}
