package forward

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pagescript"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// document is the answer to a request that loads a page, which may get the script.
type document struct {
	forwarder *Forwarder
	entry     *route.Entry
	address   tabs.Address
	posted    bool
	own       string // the path of the gateway's own resources on the page's origin
	lang      string
	secure    bool
	carries   bool
	injector  pagescript.Injector
	asked     conditions // of the request, which are not passed on
}

// newDocument prepares the request r so that the page in its answer can get the script. It returns nil and changes
// nothing if the request does not load a page into a tab, or if the script would be useless.
func (f *Forwarder) newDocument(r *http.Request, about *Request) *document {
	if about.ByToken || about.Sandbox || !f.Activity.Presence() || !pagescript.Wanted(r) {
		return nil
	}
	d := &document{
		forwarder: f, entry: about.Entry, address: tabs.Loaded(r), posted: r.Method != http.MethodGet, own: about.Address.Prefix + site.OwnPath,
		lang: site.Language(r), secure: about.Address.IsHTTPS(),
	}
	if r.Method == http.MethodGet { // of another one, the conditions are the application's to judge
		d.asked = conditionsOf(r.Header)
	}
	pagescript.Ask(r)
	return d
}

// begin decides whether the page gets the script, and changes the headers of a page that does. Requests of a page that
// cannot carry the script count as use. If no page of the workspace reports, the workspace's row is updated. begin also
// reports whether the client already has this answer; the application could not tell, because it did not see the
// request's conditions.
func (d *document) begin(status int, h http.Header) (unchanged bool) {
	verdict, nonce := pagescript.Judge(status, h, d.secure)
	switch verdict {
	case pagescript.Carries:
		pagescript.Begin(h)
		hides := pagescript.HidesAddress(h)
		d.carries, d.injector.Tag = true, pagescript.Tag(d.own, d.lang, nonce, d.forwarder.Service.MaxKeepAwake(), d.posted, hides)
	case pagescript.Forbidden:
		id, talks := d.entry.State().Route.ID, pagescript.Talks(h)
		if talks && pagescript.HidesAddress(h) {
			d.address = tabs.Hidden
		}
		d.forwarder.Tabs.LoadPlain(id, d.address, talks)
		if !d.forwarder.Tabs.HasReporter(id) {
			d.forwarder.RecordPageActivity(d.entry, workspace.PageTraffic)
		}
	}
	return !d.carries && status == http.StatusOK && d.asked.unchanged(h)
}

// write sends part of the answer.
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
