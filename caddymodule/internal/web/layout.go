package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/words"
)

//go:embed pages
var pageFiles embed.FS

var (
	pageCSS = languageCSS() + pageFile("pages/style.css")
	pageJS  = pageFile("pages/page.js")
)

// pageFile returns an embedded file as text.
func pageFile(name string) string {
	b, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded: the build would have failed
	}
	return string(b)
}

// Layout renders pages in the product's style: everything that people see besides the
// dashboard and the sign-in. A page contains its text in every language. It is complete in itself: it loads nothing,
// and works without scripts. A Layout is immutable.
type Layout struct {
	templates *template.Template
	js        string
	policy    string
}

// Page is one page of a [Layout].
type Page struct {
	// Title is the title of the document, without the product's name.
	Title words.Text
	// Content is the name of the template between header and end, and Data its input.
	Content string
	Data    any
	// Refresh is the number of seconds after which a browser without scripts asks again; 0 means never.
	Refresh int
	// Leads is another origin to which the browser may be redirected after it has sent a form of the page.
	Leads string
}

// NewLayout returns a layout. Its pages may use the templates *.html below files, and they run script after the
// layout's own script. Both may be nil and empty. It panics if the templates are invalid, because they are embedded in
// the program.
func NewLayout(files fs.FS, script string, funcs template.FuncMap) *Layout {
	t := template.New("").Funcs(templateFuncs).Funcs(funcs)
	template.Must(t.ParseFS(pageFiles, "pages/*.html"))
	if files != nil {
		template.Must(t.ParseFS(files, "*/*.html"))
	}
	l := &Layout{templates: t, js: pageJS + script}
	// The policy lets a page load nothing. It allows only the embedded style and script, by their hashes.
	l.policy = "default-src 'none'; style-src " + sourceHash(pageCSS) + "; script-src " + sourceHash(l.js) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; " + formsToSelf + "; frame-ancestors 'self'"
	return l
}

// chooseLanguage is the label of the language switch. It is in every language, because people need the switch when they
// cannot read the page.
var chooseLanguage = func() string {
	label := words.Of("page.language", nil)
	var names []string
	for _, l := range words.Languages() {
		names = append(names, label.In(l.Code))
	}
	return strings.Join(names, " · ")
}()

// formsToSelf is the part of the policy that says where forms may be sent, and where redirects that answer forms may
// lead.
const formsToSelf = "form-action 'self'"

// sourceHash returns the source expression by which a Content-Security-Policy allows
// exactly this inline text.
func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Show sends a page. An error means that nothing was sent.
func (l *Layout) Show(w http.ResponseWriter, r *http.Request, status int, p Page) error {
	var content bytes.Buffer
	if err := l.templates.ExecuteTemplate(&content, p.Content, p.Data); err != nil {
		return fmt.Errorf("rendering the page %s: %w", p.Content, err)
	}
	// The switch leads back to the page. The answer to a form has no address of its own.
	back := site.Here(r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		back = "/"
	}
	titles, err := json.Marshal(p.Title)
	if err != nil {
		return fmt.Errorf("rendering the title of the page %s: %w", p.Content, err)
	}
	policy, b := l.policy, brand.Of(r)
	if b.Style != "" {
		policy = strings.Replace(policy, "style-src ", "style-src "+sourceHash(string(b.Style))+" ", 1)
	}
	if p.Leads != "" {
		policy = strings.Replace(policy, formsToSelf, formsToSelf+" "+p.Leads, 1)
	}
	return SendPage(w, r, status, policy, l.templates.Lookup("layout.html"), struct {
		Page
		Lang, LanguagePath, Back string
		Languages                []words.Language
		Choose, Titles           string
		Brand                    *brand.Brand
		Body                     template.HTML
		CSS                      template.CSS
		JS                       template.JS
	}{
		p, site.Language(r), LanguagePath, back, words.Languages(), chooseLanguage, string(titles), b,
		template.HTML(content.String()), template.CSS(pageCSS), //nolint:gosec // our own templates and files
		template.JS(l.js), //nolint:gosec // our own file
	})
}

// Message is the data of the page "message.html": a heading, a few sentences and links,
// the first of which is the main one. Detail is what an administrator needs; it may be empty.
type Message struct {
	Heading, Text, Detail, Remedy words.Text
	Links                         []Link
}

// Link is a link below a message.
type Link struct {
	URL  string
	Text words.Text
}

// HomeLink is a link to the list of all workspaces at the given address.
func HomeLink(url string) Link {
	return Link{url, words.Of("page.home", nil)}
}

// Messages is the layout with nothing but messages.
var Messages = NewLayout(nil, "", nil)

// ShowMessage sends a message with a link to the main site's start page at home.
func (l *Layout) ShowMessage(w http.ResponseWriter, r *http.Request, status int, m *Message, home string) error {
	m.Links = append(m.Links, HomeLink(home))
	return l.Show(w, r, status, Page{Title: m.Heading, Content: "message.html", Data: m})
}

// ShowNotFound answers a request for an address of the main site where there is nothing: a person gets a page, a
// program a problem. An error means that nothing was sent.
func ShowNotFound(w http.ResponseWriter, r *http.Request) error {
	if !site.IsNavigation(r) {
		problem.NotFound.With("problem.nothing_here", words.Values{"Path": r.URL.Path}).Write(w, r)
		return nil
	}
	return Messages.ShowMessage(w, r, http.StatusNotFound, &Message{
		Heading: words.Of("page.nothing_here.heading", nil),
		Text:    words.Of("page.nothing_here.text", nil),
	}, "/")
}
