// Package forward passes requests on to the applications of workspaces, and their answers back.
//
// It owns what crosses between browser and workspace, in both directions: which headers may,
// and what of the bytes counts as use (SPEC 6). It also owns which documents get the script of
// package pagescript. It must not know who may pass, where an application is, nor what becomes of
// a request that it does not answer.
package forward

import (
	"context"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/gateway/upgrade"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Options configure a [Forwarder]. All are required.
type Options struct {
	// Activity records when workspaces are used.
	Activity *activity.Buffer
	// Tabs knows which pages report what people do in them.
	Tabs *tabs.Tabs
	// Service is the part of the coordinator that pages with the script need.
	Service Service
	// StripAuthorization removes the Authorization header from requests.
	StripAuthorization bool
	// Proxy sends a request to the workspace in a state, and its answer to the client.
	Proxy func(http.ResponseWriter, *http.Request, *route.State) error
	// NoIdleTimeout suspends the server's limit on silence for the request until the
	// returned function is called.
	NoIdleTimeout func(*http.Request) (restore func())
	// Log receives warnings.
	Log *zap.Logger
}

// Service is the part of the service layer that pages with the script need.
type Service interface {
	// SetPageActivity records how people are told from machinery in the workspace's pages.
	SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error
	// MaxKeepAwake is for how long a person may keep a workspace awake at most.
	MaxKeepAwake() time.Duration
}

// Forwarder passes requests on. It is safe for concurrent use.
type Forwarder struct {
	Options
	pages pageWrites
}

// New returns a forwarder. It performs no I/O and starts nothing.
func New(o Options) *Forwarder { return &Forwarder{Options: o} }

// Request is what the caller knows about a request besides what stands in it.
type Request struct {
	// ID is the workspace, Entry its entry in the route table, and State the one in which it is
	// reached.
	ID    workspace.ID
	Entry *route.Entry
	State *route.State
	// Kind is the kind of client that sends the request.
	Kind decision.ClientKind
	// Address is the address of the request.
	Address *site.Address
	// Stripped is what the caller has taken away from the path, which the application learns
	// from X-Forwarded-Prefix; empty for nothing.
	Stripped string
	// Sandbox makes documents powerless: the answer is for a program, on the dashboard's
	// origin, and no browser must be able to use it.
	Sandbox bool
}

// Exchange is what passing a request on needs, and what has become of it. It is part of what
// the caller keeps for the request, because one large allocation costs less than three. The
// zero value is ready; one goroutine uses it, for one attempt after the other.
type Exchange struct {
	filter responseFilter
	prefix [1]string // the value of X-Forwarded-Prefix
}

// Begun reports whether the final response of the last attempt has begun: from then on no
// other answer can be sent.
func (x *Exchange) Begun() bool { return x.filter.begun }

// Forward passes r on, without what the workspace must not see: the gateway's cookies and
// claims about the user. The answer reaches w without what a workspace must not set. A meter
// counts both, and a document gets the script. The error is that of the proxy, or of the
// connection to the client.
func (f *Forwarder) Forward(x *Exchange, w http.ResponseWriter, r *http.Request, about Request) error {
	filter := &x.filter
	filter.reset(w, about.Address.Prefix, about.Sandbox)
	filter.meter = f.newMeter(r, about)
	filter.meter.begin()
	filter.document = f.newDocument(r, about) // before the cookies are removed
	cleanRequestHeaders(r.Header, f.StripAuthorization)
	if about.Stripped != "" {
		x.prefix[0] = about.Stripped
		r.Header["X-Forwarded-Prefix"] = x.prefix[:]
	}
	body := r.Body
	defer func() { r.Body = body }()
	isExtended := site.IsExtendedConnect(r)
	if !isExtended { // its messages are told from its control frames, in both directions
		filter.metered = true
		if body != nil && body != http.NoBody {
			filter.upload = upload{ReadCloser: body, meter: &filter.meter}
			r.Body = &filter.upload
		}
	}
	var answer http.ResponseWriter = filter
	if isExtended || r.Header.Get("Upgrade") != "" {
		counted, done := upgrade.Count(filter, r, &filter.meter, f.NoIdleTimeout)
		defer done()
		answer = counted
	}
	err := f.Proxy(answer, r, about.State)
	if err == nil && filter.begun && filter.document != nil {
		err = filter.document.end(w)
	}
	return err
}
