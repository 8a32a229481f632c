// Package forward passes requests on to the applications of workspaces, and their answers back.
//
// It owns the traffic between browser and workspace, in both directions: which headers may pass,
// and which bytes count as use (SPEC 6). It also owns which documents get the script of package
// pagescript. It must not know which users may pass, where an application is, or what happens to a request that the
// application does not answer.
package forward

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/gateway/upgrade"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Options configure a [Forwarder]. All are required but for Metrics.
type Options struct {
	// Activity records when workspaces are used.
	Activity *activity.Buffer
	// Tabs knows which pages report what people do in them.
	Tabs *tabs.Tabs
	// Service is the part of the coordinator that pages with the script need.
	Service Service
	// StripAuthorization removes the Authorization header from requests.
	StripAuthorization bool
	// Proxy sends requests to applications, and their answers to the clients.
	Proxy ProxyFunc
	// NoIdleTimeout suspends the server's limit on silence for the request until the
	// returned function is called.
	NoIdleTimeout func(*http.Request) (restore func())
	// Client returns where a request comes from, for the audit. ClientAddress returns only the client's address, which
	// costs less.
	//
	Client        func(*http.Request) audit.Actor
	ClientAddress func(*http.Request) string
	// Metrics counts open WebSockets; nil counts none.
	Metrics *metrics.Gateway
	// Log receives warnings.
	Log *zap.Logger
}

// Service is the part of the service layer that pages with the script need.
type Service interface {
	// SetPageActivity records how the gateway tells a person's activity in the workspace's pages from automatic
	// requests.
	SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error
	// MaxKeepAwake is the longest time for which a person may keep a workspace awake.
	MaxKeepAwake() time.Duration
}

// Forwarder passes requests on. It is safe for concurrent use.
type Forwarder struct {
	Options
	pages pageWrites
}

// New returns a forwarder. It performs no I/O and starts nothing.
func New(o Options) *Forwarder { return &Forwarder{Options: o} }

// Request is what the caller knows about a request besides its content.
type Request struct {
	// Entry is the workspace's entry in the route table, and State the state in which the workspace is reached.
	Entry *route.Entry
	State *route.State
	// Kind is the kind of client that sends the request.
	Kind decision.ClientKind
	// Address is the address of the request.
	Address *site.Address
	// Grant is the grant that admits the request.
	Grant auth.Grant
	// ByToken says that the request was admitted by its Authorization header. The application must not get this header.
	ByToken bool
	// Sandbox makes documents in the answer powerless. It is set for an answer to a program on the dashboard's origin:
	// no browser must be able to use such an answer.
	Sandbox bool
}

// Exchange is a request to pass on, and its outcome. The caller embeds it in its own data about the request, because
// one large allocation costs less than three. The zero value is ready; one goroutine uses it, for one attempt after
// another.
type Exchange struct {
	binding binding
	filter  responseFilter
	prefix  [1]string // the value of X-Forwarded-Prefix
}

// Forward passes r on to the workspace, and the answer to w, for as long as the request's session lives. It returns the
// error of the proxy, or of the connection to the client.
func (f *Forwarder) Forward(x *Exchange, w http.ResponseWriter, r *http.Request, about Request) (Outcome, error) {
	if !x.binding.bind(w, r) {
		return SessionEnded, nil
	}
	w, r = x.binding.w, x.binding.r
	if redirectBelow(w, r, &about) {
		return Answered, nil
	}
	path, rawPath := r.URL.Path, r.URL.RawPath
	stripped := toApplication(r, about.Address.Prefix, about.State.Route.BasePath)
	if r.URL.Path != path {
		defer func() { r.URL.Path, r.URL.RawPath = path, rawPath }() // access logs show the original path
	}
	err := f.proxy(x, w, r, &about, stripped)
	begun := x.filter.begun
	if err == nil && !begun && r.Context().Err() == nil {
		// The application answered with a status that does not exist, or switched protocols although the client had not
		// asked for that.
		clear(w.Header())
		err = &NoAnswerError{Status: http.StatusBadGateway, Err: errNoAnswer}
	}
	outcome, isOver := outcomeOf(err), r.Context().Err() != nil
	var body *BodyError
	switch {
	case isOver && errors.As(err, &body) && body.Status != http.StatusRequestTimeout: // which ends the context, too
		return ClientGone, err
	case err == nil, begun, isOver && outcome != BadBody:
		return Answered, err
	}
	return outcome, err
}

// proxy passes r on without the gateway's cookies and without claims about the user. stripped is the part of the path
// that the application does not see. The answer reaches w without the headers that a workspace must not set. A meter
// counts the bytes of the request and of the answer. If the answer is a document, it gets the script.
func (f *Forwarder) proxy(x *Exchange, w http.ResponseWriter, r *http.Request, about *Request, stripped string) error {
	filter := &x.filter
	filter.reset(w, about.Address.Prefix, about.Sandbox)
	filter.meter = f.newMeter(r, about)
	filter.meter.begin()
	filter.document = f.newDocument(r, about) // before the cookies are removed
	cleanRequestHeaders(r.Header, about.Address.OwnHost, f.StripAuthorization || about.ByToken)
	about.Address.NormalizeForwarded(r.Header)
	if _, ok := r.Header[forwardedFor]; ok {
		trimForwardedFor(r.Header, f.ClientAddress(r))
	}
	if stripped != "" {
		x.prefix[0] = stripped
		r.Header["X-Forwarded-Prefix"] = x.prefix[:]
		filter.cleaner.links = about.Address
	}
	mapDestination(r.Header, about.Address, stripped, about.State.Route.BasePath)
	body := r.Body
	defer func() { r.Body = body }()
	isExtended := site.IsExtendedConnect(r)
	defer f.NoIdleTimeout(r)()
	if !isExtended { // messages are distinguished from control frames, in both directions
		filter.metered = true
		filter.playing = isPlayed(r)
		if r.ContentLength != 0 { // the server may have wrapped a body that is none
			filter.upload = upload{ReadCloser: body, request: r.Context(), meter: &filter.meter, keptOpen: r.ProtoMajor == 1}
			r.Body = &filter.upload
			if r.ProtoMajor == 1 { // otherwise Go stops reading it when the answer begins
				_ = http.NewResponseController(w).EnableFullDuplex() // fails only for writers of tests, which have no connection
			}
		}
	}
	var answer http.ResponseWriter = filter
	if isExtended || site.HeaderValue(r.Header, "Upgrade") != "" {
		counted, done := upgrade.Count(filter, r, &filter.meter, func() (bool, <-chan struct{}) {
			st := about.Entry.State()
			return st.Dozes(), st.Changed()
		})
		defer done()
		f.Metrics.WebSocket(1)
		defer f.Metrics.WebSocket(-1)
		answer = counted
	}
	at := about.State
	if port := about.Address.Port; port != 0 {
		at = at.AtPort(port)
	}
	err := f.Proxy(answer, r, at)
	if err == nil && filter.begun && filter.document != nil {
		err = filter.document.end(w)
	}
	if err != nil || !filter.begun {
		if failure := filter.upload.brokenOff(); failure != nil {
			return failure
		}
	}
	if err == nil && filter.begun && filter.upload.ReadCloser != nil {
		filter.upload.linger(w)
	}
	return err
}
