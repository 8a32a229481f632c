package pages

import (
	"bytes"
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
	"strconv"
	"strings"
	"sync"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/words"
)

// AssetPath is the path of the pages' scripts, styles and pictures. Their names carry
// a hash of their content, so browsers may keep them forever.
const AssetPath = "/assets/"

//go:embed static
var static embed.FS

// wordsName is the asset with the texts of the other scripts, in every language. It is no file of its own.
const wordsName = "words.js"

// assetNames are the assets. One that names another (as /assets/NAME)
// comes after it, because its own hash depends on the other's.
var assetNames = []string{
	"style.css", "api.css", wordsName, "text.js", "login.js", "dom.js", "store.js", "router.js",
	"dialogs.js", "toast.js", "undo.js", "events.js", "status.js", "images.js", "swap.js", "edit.js",
	"recovery.js", "actions.js", "menu.js", "card.js", "create.js", "find.js", "tools.js", "table.js",
	"home.js", "explanation.js", "archives.js", "history.js", "stats.js", "logs.js", "workspace.js", "sessions.js", "password.js",
	"tokens.js", "paged.js", "audit.js", "account.js", "failed.js", "everyone.js", "overview.js", "recent.js", "users.js", "usage.js", "admin.js", "header.js", "keys.js", "dashboard.js",
}

// Pages are the embedded pages and assets, ready to be served.
type Pages struct {
	byPath                        map[string]asset
	dashboard, login, unavailable *template.Template
	misdirected, api              *template.Template
}

// asset is the content of one path.
type asset struct {
	body        []byte
	contentType string
}

// Load returns the pages. They are read once per process.
func Load() (*Pages, error) { return load() }

// load reads the embedded files. It puts the hashed names where a file names another asset. So
// a change of one changes the names of all that use it, and browsers never mix versions.
var load = sync.OnceValues(func() (*Pages, error) {
	p := &Pages{byPath: make(map[string]asset)}
	hashed := make(map[string]string)
	for _, name := range assetNames {
		body, err := content(name)
		if err != nil {
			return nil, fmt.Errorf("reading an embedded asset: %w", err)
		}
		for plain, withHash := range hashed {
			body = bytes.ReplaceAll(body, []byte(`"`+AssetPath+plain+`"`), []byte(`"`+withHash+`"`))
		}
		sum := sha256.Sum256(body)
		ext := path.Ext(name)
		hashed[name] = AssetPath + strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(sum[:6]) + ext
		p.byPath[hashed[name]] = asset{body, mime.TypeByExtension(ext)}
	}
	funcs := template.FuncMap{"asset": func(name string) (string, error) {
		if hash, ok := hashed[name]; ok {
			return hash, nil
		}
		return "", fmt.Errorf("no asset %q", name)
	}, "modules": func() (modules []string) { // the scripts of the dashboard, which the browser gets all at once
		for _, name := range assetNames {
			if path.Ext(name) == ".js" && name != "login.js" && name != "dashboard.js" {
				modules = append(modules, hashed[name])
			}
		}
		return modules
	}}
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

// content returns an asset without the hashes.
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
	h.Set("Content-Type", found.contentType)
	h.Set("Content-Length", strconv.Itoa(len(found.body)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(found.body) // fails only when the client has gone
	}
	return nil
}
