package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/gateway/decision"
	"github.com/codehub/gateway/caddymodule/gateway/presence"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// document is the answer to a navigation, which may be a page that gets the script.
type document struct {
	gateway  *Gateway
	entry    *route.Entry
	own      string // the path of what the gateway serves on the page's origin
	lang     string
	secure   bool
	carries  bool
	injector presence.Injector
}

// newDocument prepares the request for a page with the script. It returns nil, and changes
// nothing, for all that loads no page into a tab, and when the script has no use.
func (g *Gateway) newDocument(req *request) *document {
	r := req.r
	if req.kind != decision.Navigation || !g.Activity.Presence() || !presence.Wanted(r) {
		return nil
	}
	d := &document{
		gateway: g, entry: req.entry, own: req.target.Prefix + web.OwnPath,
		lang: web.Language(r), secure: g.Site.Scheme(r) == "https",
	}
	presence.Ask(r.Header)
	return d
}

// begin decides what becomes of the answer, and changes the headers of a page that carries
// the script. Of one that cannot, the workspace's row tells the others.
func (d *document) begin(status int, h http.Header) {
	verdict, nonce := presence.Judge(status, h, d.secure)
	switch verdict {
	case presence.Carries:
		presence.Begin(h)
		d.carries, d.injector.Tag = true, presence.Tag(d.own, d.lang, nonce, d.gateway.Service.MaxKeepAwake())
	case presence.Forbidden:
		d.gateway.pages.record(d.gateway, d.entry, workspace.PageTraffic)
	}
}

// write sends a part of the answer.
func (d *document) write(w http.ResponseWriter, p []byte) (int, error) {
	if d.carries {
		return d.injector.Write(w, p)
	}
	return w.Write(p)
}

// end sends what is left.
func (d *document) end(w http.ResponseWriter) error {
	if d.carries {
		return d.injector.Close(w)
	}
	return nil
}

// recordTimeout bounds writing how a workspace's pages are told from people.
const recordTimeout = 10 * time.Second

// pageRecorder writes that to the rows, one write per workspace at a time.
type pageRecorder struct {
	mu      sync.Mutex
	writing map[workspace.ID]bool
}

// record makes the row say it, if it does not yet. It does not wait: a page does not, and the
// next one tries again what has failed.
func (p *pageRecorder) record(g *Gateway, e *route.Entry, activity workspace.PageActivity) {
	r := e.State().Route
	if r.PageActivity == activity || !p.enter(r.ID) {
		return
	}
	go func() {
		defer p.leave(r.ID)
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		if err := g.Service.SetPageActivity(ctx, r.ID, activity); err != nil {
			g.Log.Warn("how people use the pages of a workspace is not recorded; until it is, all that its pages send counts as use",
				zap.String("workspace", string(r.ID)), zap.Error(err))
		}
	}()
}

func (p *pageRecorder) enter(id workspace.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing[id] {
		return false
	}
	if p.writing == nil {
		p.writing = make(map[workspace.ID]bool)
	}
	p.writing[id] = true
	return true
}

func (p *pageRecorder) leave(id workspace.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.writing, id)
}
