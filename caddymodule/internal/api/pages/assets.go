package pages

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
)

// AssetPath is the path of the pages' scripts, styles and pictures. Their names carry
// a hash of their content, so browsers may keep them forever.
const AssetPath = "/assets/"

//go:embed static
var static embed.FS

// wordsName is the asset with the texts of the other scripts, in every language. It is generated, not a
// file.
const wordsName = "words.js"

// styles and scripts are the assets. A script includes everything that it imports.
var (
	styles  = []string{"style.css", "api.css"}
	scripts = []string{"login.js", "dashboard.js"}
)

// boot is inline in the pages. It loads their script, and retries if that fails: a page without its
// script would stay empty.
//
//go:embed static/boot.js
var boot string

// Pages are the embedded pages and assets, ready to be served.
type Pages struct {
	byPath                        map[string]asset
	dashboard, login, unavailable *template.Template
	misdirected, api              *template.Template
}

// asset is the content of one path, plain and compressed.
type asset struct {
	body, packed []byte
	contentType  string
}

// newAsset compresses content once for all requests.
func newAsset(name string, body []byte) asset {
	return asset{body, web.Pack(body), mime.TypeByExtension(path.Ext(name))}
}

// Load returns the pages. They are read once per process.
func Load() (*Pages, error) { return load() }

// load reads the embedded files. The names of assets depend on their content.
var load = sync.OnceValues(func() (*Pages, error) {
	p := &Pages{byPath: make(map[string]asset)}
	hashed := make(map[string]string)
	for _, name := range slices.Concat(styles, scripts) {
		read := content
		if path.Ext(name) == ".js" {
			read = bundle
		}
		body, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded asset %s: %w", name, err)
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		hashed[name] = AssetPath + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		p.byPath[hashed[name]] = newAsset(name, body)
	}
	funcs := template.FuncMap{"asset": func(name string) (string, error) {
		if hash, ok := hashed[name]; ok {
			return hash, nil
		}
		return "", fmt.Errorf("no asset %q", name)
	}, "boot": func() template.JS { return template.JS(boot) }} //nolint:gosec // the file is part of this package
	parse := func(name string) (*template.Template, error) {
		return template.New(name).Funcs(funcs).ParseFS(static, "static/"+name)
	}
	var errs [5]error
	p.dashboard, errs[0] = parse("dashboard.html")
	p.login, errs[1] = parse("login.html")
	p.unavailable, errs[2] = parse("unavailable.html")
	p.misdirected, errs[3] = parse("misdirected.html")
	p.api, errs[4] = parse("api.html")
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("reading the embedded pages: %w", err)
	}
	return p, nil
})

// content returns the content of an asset before hashes are filled in.
func content(name string) ([]byte, error) {
	if name != wordsName {
		return static.ReadFile("static/" + name)
	}
	languages, err := json.Marshal(words.Languages())
	return fmt.Appendf(nil, "export const languages = %s;\nexport const texts = %s;\n",
		languages, words.Section("dashboard")), err
}

// ServeAsset serves an asset by its name with the hash.
func (p *Pages) ServeAsset(w http.ResponseWriter, r *http.Request) error {
	if brand.Of(r).Serve(w, r) {
		return nil
	}
	found, ok := p.byPath[r.URL.Path]
	if !ok {
		return problem.NotFound.With("problem.no_asset", words.Values{"Path": r.URL.Path})
	}
	h := w.Header()
	body := found.body
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		body = found.packed
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("Content-Type", found.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // fails only when the client has disconnected
	}
	return nil
}
