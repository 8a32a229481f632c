// Package preview serves every page that people see, in every state, from fixtures: `make preview`. It needs no server,
// and renders pages with the product's own functions.
//
// It owns the fixtures and their index. It reads the reasons for waiting, the reasons of errors, the phases and the
// operations from the source that owns them, so that a new one appears automatically. The product must not import it.
package preview

import (
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/devenv/constants"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// root is the path prefix of all previews. wakePath is the wake page to which other pages lead.
const (
	root     = "/preview/"
	wakePath = root + "wake/starting-from-standby"
)

// entry is one page in one state.
type entry struct {
	Group, Name string
	// Hint says what to do in the page to see the state. It is empty if the page shows the state by itself.
	Hint string
	// Covers lists the constants of the product that the page shows, each with its kind.
	Covers []string

	show func(w http.ResponseWriter, r *http.Request) error
	// status is the answer to the polls of the page's script. It is nil for a page that does not poll.
	status func() progress.Status
	// board contains what the API shows to the page's script. It is nil for a page that does not use the API.
	board *board
}

// Path is the address of the entry.
func (e *entry) Path() string { return root + e.Group + "/" + e.Name }

// states are the states of the product, read from its source.
type states struct {
	phases     []workspace.Phase
	operations []workspace.Operation
	waits      []string
	reasons    []workspace.ErrorReason
	busy       []string
	steps      []string
}

// readStates reads the states from the source below dir.
func readStates(dir string) (c states, err error) {
	source := filepath.Join(dir, "coordinator/workspace")
	read := func(into *[]string, dir, prefix string) {
		if err == nil {
			*into, err = constants.Read[string](dir, "", prefix)
		}
	}
	read(&c.waits, source, "Wait")
	read(&c.busy, source, "Busy")
	read(&c.steps, filepath.Join(dir, "storagejob/contract"), "Step")
	if err != nil {
		return c, err
	}
	if c.phases, err = constants.Read[workspace.Phase](source, "Phase", ""); err != nil {
		return c, err
	}
	if c.operations, err = constants.Read[workspace.Operation](source, "Operation", ""); err != nil {
		return c, err
	}
	c.reasons, err = constants.Read[workspace.ErrorReason](source, "ErrorReason", "")
	return c, err
}

// Preview serves the index and the pages.
type Preview struct {
	entries []*entry
	pages   *pages.Pages
	brand   *brand.Brand // an operator's
	site    *site.Site
	mux     *http.ServeMux
	nobody  *board // of pages that have no board of their own
}

// New returns the preview of the source below dir.
func New(dir string) (*Preview, error) {
	c, err := readStates(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the states of the product: %w", err)
	}
	loaded, err := pages.Load()
	if err != nil {
		return nil, err
	}
	p := &Preview{pages: loaded, site: site.New(site.Options{}), mux: http.NewServeMux(), nobody: &board{}}
	p.entries = slices.Concat(wakePages(c), failedPages(c), limitPages(c), messagePages(),
		p.signInPages(), providerPages(), p.dashboardPages(c), noticePages())
	branded, err := p.branded(p.entries)
	if err != nil {
		return nil, err
	}
	p.entries = append(p.entries, branded...)
	p.routes()
	return p, nil
}

// ServeHTTP serves everything.
func (p *Preview) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

func (p *Preview) routes() {
	p.mux.HandleFunc("GET /{$}", p.index)
	p.mux.HandleFunc("GET "+pages.AssetPath, func(w http.ResponseWriter, r *http.Request) {
		if !p.brand.Serve(w, r) {
			answered(w, p.pages.ServeAsset(w, r))
		}
	})
	p.apiRoutes()
	p.mux.HandleFunc(web.LanguagePath, func(w http.ResponseWriter, r *http.Request) {
		at := p.site.Parse(r)
		web.SwitchLanguage(&at, w, r)
	})
	p.mux.HandleFunc(root+"{group}/{name}", p.page)
	p.mux.HandleFunc("GET "+root+"{group}/{name}/status", p.status)
	p.mux.HandleFunc(root+"notice/{name}/"+noticeOwn+"{path}", p.notice)
	// The targets of links in the pages.
	for from, to := range map[string]string{"/login": root + "sign-in/both", "/auth/oidc/": root + "provider/0", "/w/": wakePath} {
		p.mux.HandleFunc(from, func(w http.ResponseWriter, _ *http.Request) {
			site.Redirect(w, to, http.StatusSeeOther)
		})
	}
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { answered(w, web.ShowNotFound(w, r)) })
}

// answered sends the error that prevented a page from being shown.
func answered(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// find returns the entry of a path. If there is none, it answers the request and returns nil.
func (p *Preview) find(w http.ResponseWriter, r *http.Request) *entry {
	for _, e := range p.entries {
		if e.Group == r.PathValue("group") && e.Name == r.PathValue("name") {
			return e
		}
	}
	answered(w, web.ShowNotFound(w, r))
	return nil
}

// page shows an entry. With ?lang it first stores that language, as the language switch of the pages does.
func (p *Preview) page(w http.ResponseWriter, r *http.Request) {
	if lang := r.URL.Query().Get("lang"); lang != "" {
		at := p.site.Parse(r)
		web.KeepLanguage(&at, w, lang)
		site.Redirect(w, r.URL.Path, http.StatusSeeOther)
		return
	}
	if e := p.find(w, r); e != nil {
		answered(w, e.show(w, r))
	}
}

//go:embed index.html
var indexSource string

var indexPage = template.Must(template.New("index").Parse(indexSource))

// index links every entry in every language.
func (p *Preview) index(w http.ResponseWriter, r *http.Request) {
	type group struct {
		Name    string
		Entries []*entry
	}
	var groups []*group
	for _, e := range p.entries {
		if n := len(groups); n == 0 || groups[n-1].Name != e.Group {
			groups = append(groups, &group{Name: e.Group})
		}
		last := groups[len(groups)-1]
		last.Entries = append(last.Entries, e)
	}
	const policy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'"
	answered(w, web.SendPage(w, r, http.StatusOK, policy, indexPage, struct {
		Groups    []*group
		Languages []words.Language
		Count     int
	}{groups, words.Languages(), len(p.entries)}))
}

// jobStep is a step of a storage job, with its operation and the phase in which the operation begins.
type jobStep struct {
	step string
	op   workspace.Operation
	from workspace.Phase
}

// jobSteps returns all steps of storage jobs.
func jobSteps(c states) (list []jobStep) {
	for _, step := range c.steps {
		s := jobStep{step, workspace.OpArchiving, workspace.PhaseStandby}
		if step == contract.StepUnpack || step == contract.StepSwap {
			s.op, s.from = workspace.OpRestoring, workspace.PhaseArchived
		}
		list = append(list, s)
	}
	return list
}
