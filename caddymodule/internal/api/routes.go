package api

import (
	"context"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/reach"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// apiPath is the path below which everything belongs to the REST API.
const apiPath = "/api/v1/"

// workspacePath begins the patterns of one workspace.
const workspacePath = apiPath + "workspaces/{id}"

// recoverAll is the one path that looks like that of a workspace.
const recoverAll = "POST " + apiPath + "workspaces/recover"

// page answers a request for people: it returns an error, and has sent nothing, when
// it cannot.
type page func(w http.ResponseWriter, r *http.Request) error

// endpoint answers a request of the REST API, errors included.
type endpoint func(w http.ResponseWriter, r *http.Request)

// ServeHTTP implements [http.Handler]; [Handler.Serve] calls pages itself.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p(w, r); err != nil {
		problem.Of(err).Write(w, r)
	}
}

// ServeHTTP implements [http.Handler].
func (e endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) { e(w, r) }

// routes returns all paths and methods. A path with another method is answered with
// 405, and what the REST API does not have with 404.
func (h *Handler) routes() *http.ServeMux {
	mux := http.NewServeMux()
	offered := make(map[string][]string) // methods by path
	add := func(pattern string, handler http.Handler) {
		mux.Handle(pattern, handler)
		method, path, _ := strings.Cut(pattern, " ")
		offered[path] = append(offered[path], method)
		if method == http.MethodGet {
			offered[path] = append(offered[path], http.MethodHead)
		}
	}
	for _, r := range apiRoutes() {
		add(r.pattern, h.endpoint(admit(r.scope, r.handle)))
	}
	// Pages check the session themselves: without one they redirect.
	for pattern, p := range map[string]page{
		"GET /{$}":                h.guarded(h.dashboardPage),
		"GET /login":              h.guarded(h.loginPage),
		"GET " + site.TicketPath:  h.guarded(h.ticket),
		"GET " + site.NamePath:    h.guarded(h.name),
		"GET /api":                h.apiPage,
		"GET /health":             h.health,
		"GET /health/ready":       h.readiness,
		"GET /health/coordinator": h.coordinatorHealth,
		"GET " + reach.Path:       h.connection,
		"GET " + pages.AssetPath:  h.pages.ServeAsset,
	} {
		add(pattern, p)
	}
	if h.Provider != nil {
		mux.Handle(providerPath, h.guarded(func(w http.ResponseWriter, r *http.Request, at *site.Address) error {
			h.Provider.Serve(w, r, at)
			return nil
		}))
	}
	// It answers other methods itself.
	mux.Handle(web.LanguagePath, page(func(w http.ResponseWriter, r *http.Request) error {
		at := h.Site.Parse(r)
		web.SwitchLanguage(&at, w, r)
		return nil
	}))
	// ServeMux prefers patterns with a method, so these get the other methods only.
	for path, methods := range offered {
		if strings.HasSuffix(recoverAll, path) {
			continue // the other methods are those of a workspace's path
		}
		refuse := notAllowed(methods)
		if strings.HasPrefix(path, apiPath) {
			mux.Handle(path, h.endpoint(func(c *call) error { return refuse(c.w, c.r) }))
		} else {
			mux.Handle(path, refuse)
		}
	}
	mux.Handle(apiPath, h.endpoint(func(c *call) error {
		return problem.NotFound.With("problem.no_path", words.Values{"Path": c.r.URL.Path})
	}))
	return mux
}

// route is a path and method of the REST API.
type route struct {
	pattern string
	scope   auth.Scope // which a personal access token needs; a sign-in has all
	handle  func(*call) error
}

// apiRoutes lists the REST API.
func apiRoutes() []route {
	const read, write, admin, people = auth.ScopeRead, auth.ScopeWrite, auth.ScopeAdmin, auth.NoScope
	return []route{
		{"GET /api/v1/openapi.json", read, (*call).description},
		{"POST /api/v1/auth/login", people, patient((*call).login)},
		{"POST /api/v1/auth/logout", people, patient((*call).logout)},
		{"GET /api/v1/auth/session", read, patient(signedIn((*call).session))},
		{"GET /api/v1/me", read, patient(signedIn((*call).session))},
		{"POST /api/v1/me/password", people, patient(signedIn((*call).changePassword))},
		{"GET /api/v1/me/audit", read, patient(signedIn((*call).ownAudit))},
		{"GET /api/v1/sessions", read, patient(signedIn((*call).listSessions))},
		{"DELETE /api/v1/sessions", people, patient(signedIn((*call).endSessions))},
		{"DELETE /api/v1/sessions/{id}", people, patient(signedIn((*call).endSessions))},
		{"GET /api/v1/tokens", read, patient(signedIn((*call).listTokens))},
		{"POST /api/v1/tokens", people, patient(signedIn((*call).createToken))},
		{"DELETE /api/v1/tokens/{id}", write, patient(signedIn((*call).revokeToken))},
		{"GET /api/v1/users", admin, patient(signedIn(administrator((*call).listUsers)))},
		{"POST /api/v1/users", admin, patient(signedIn(administrator((*call).createUser)))},
		{"GET /api/v1/users/{id}", admin, patient(signedIn(administrator((*call).getUser)))},
		{"PATCH /api/v1/users/{id}", admin, patient(signedIn(administrator((*call).patchUser)))},
		{"POST /api/v1/users/{id}/sign-out", admin, patient(signedIn(administrator((*call).signOutUser)))},
		{"POST /api/v1/users/{id}/unlock", admin, patient(signedIn(administrator((*call).unlockUser)))},
		{"GET /api/v1/admin/overview", admin, patient(signedIn(administrator((*call).overview)))},
		{"GET /api/v1/admin/history", admin, patient(signedIn(administrator((*call).allHistory)))},
		{"GET /api/v1/admin/audit", admin, signedIn(administrator((*call).readAudit))},
		{"POST /api/v1/admin/gc", admin, signedIn(administrator((*call).collect))},
		{"POST /api/v1/admin/scrub", admin, patient(signedIn(administrator((*call).scrubArchives)))},
		{"GET /api/v1/admin/report", admin, patient(signedIn(administrator((*call).allReport)))},
		{"GET /api/v1/report", read, patient(signedIn((*call).ownReport))},
		{"GET /api/v1/events", read, signedIn((*call).events)},
		{"GET /api/v1/limits", read, patient(signedIn((*call).getLimits))},
		{"GET /api/v1/images", read, patient(signedIn((*call).listImages))},
		{"GET /api/v1/workspaces", read, patient(signedIn((*call).listWorkspaces))},
		{"POST /api/v1/workspaces", write, patient(signedIn((*call).createWorkspace))},
		{"GET /api/v1/workspaces/{id}", read, patient(signedIn(withID((*call).getWorkspace)))},
		{"PATCH /api/v1/workspaces/{id}", write, patient(signedIn(withID((*call).patchWorkspace)))},
		{"DELETE /api/v1/workspaces/{id}", write, patient(signedIn(withID((*call).deleteWorkspace)))},
		{"GET /api/v1/workspaces/{id}/exec", write, signedIn(withID((*call).execSocketWorkspace))},
		{"POST /api/v1/workspaces/{id}/exec", write, signedIn(withID((*call).execWorkspace))},
		{"GET /api/v1/workspaces/{id}/archives", read, patient(signedIn(withID((*call).listArchives)))},
		{"POST /api/v1/workspaces/{id}/archives/restore", write, patient(signedIn(withID((*call).restoreArchive)))},
		{"GET /api/v1/workspaces/{id}/explain", read, patient(signedIn(withID((*call).explainWorkspace)))},
		{"GET /api/v1/workspaces/{id}/history", read, patient(signedIn(withID((*call).workspaceHistory)))},
		{"GET /api/v1/workspaces/{id}/logs", read, signedIn(withID((*call).workspaceLogs))},
		{"GET /api/v1/workspaces/{id}/stats", read, signedIn(withID((*call).workspaceStats))},
		{"POST /api/v1/workspaces/{id}/start", write, patient(signedIn(withID(setDesired(workspace.DesiredRunning))))},
		{"POST /api/v1/workspaces/{id}/sleep", write, patient(signedIn(withID(setDesired(workspace.DesiredStandby))))},
		{"POST /api/v1/workspaces/{id}/archive", write, patient(signedIn(withID(setDesired(workspace.DesiredArchived))))},
		{"POST /api/v1/workspaces/{id}/keep-awake", write, patient(signedIn(withID((*call).keepAwake)))},
		{"POST /api/v1/workspaces/{id}/recover", admin, signedIn(withID((*call).recoverWorkspace))},
		{"POST /api/v1/workspaces/{id}/undelete", write, patient(signedIn(withID((*call).undeleteWorkspace)))},
		{recoverAll, admin, signedIn((*call).recoverWorkspaces)},
	}
}

// notAllowed refuses other methods than those of a path.
func notAllowed(methods []string) page {
	allow := strings.Join(methods, ", ")
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Allow", allow)
		return problem.Method.With("problem.use_methods", words.Values{"Method": r.Method, "Methods": allow})
	}
}

// call is one request of the REST API.
type call struct {
	*Handler
	w     http.ResponseWriter
	r     *http.Request
	at    site.Address
	token string       // of the session; empty without one
	scope auth.Scope   // which a personal access token needs
	user  auth.User    // behind signedIn
	grant auth.Grant   // behind signedIn
	id    workspace.ID // behind withID
	// fromMemory says that the answer needed no database.
	fromMemory bool
}

// endpoint returns an endpoint that sends errors as problems, and logs those that are
// the server's fault: an outage once, however many requests it concerns.
func (h *Handler) endpoint(handle func(*call) error) endpoint {
	return func(w http.ResponseWriter, r *http.Request) {
		r = h.audited(r)
		c := &call{Handler: h, w: w, r: r, at: h.Site.Parse(r)}
		c.token, _ = c.at.Token(r.Header, site.SessionCookie)
		err := handle(c)
		if err == nil && !c.fromMemory {
			h.away.Recovered()
		}
		if w, local := w.(*localWriter); local && err != nil {
			w.begin(http.StatusInternalServerError, err)
			return
		}
		if err == nil || r.Context().Err() != nil { // answered, or the client has gone
			return
		}
		c.refused(r.Context(), err).Write(w, r) // the context of the call has ended
	}
}

// refused returns what the client is told, and logs what is the server's fault.
func (c *call) refused(ctx context.Context, err error) *problem.Problem {
	p := c.problem(ctx, err)
	c.auditRefusal(ctx, p, err)
	fields := []zap.Field{zap.String(logkey.Method, c.r.Method), zap.String(logkey.Path, c.r.URL.Path)}
	switch {
	case p.Type == problem.Outdated.Type: // the coordinator has said so
	case p.Type == problem.CommandLost.Type && p.Cause == nil: // the client, its session or this configuration has ended
	case p.Type == problem.Unavailable.Type:
		c.away.Failed(err, fields...)
	case p.Status >= http.StatusInternalServerError:
		c.Logger.Error("API request failed", append(fields, zap.Int(logkey.Status, p.Status), zap.Error(err))...)
	}
	return p
}

// admit refuses every request in a process that must not serve, and those of other origins and
// at other hosts. It waits for a coordinator that is starting. A personal access token needs the scope, also
// where signedIn does not ask who sends the request.
func admit(scope auth.Scope, handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if older := c.Refused(); older != nil {
			return older
		}
		if err := guard(c.w, c.r, &c.at); err != nil {
			return err
		}
		if err := c.ready(c.r.Context()); err != nil {
			return err
		}
		if c.scope = scope; scope == auth.NoScope && byToken(c.r) {
			_, err := c.grantFor(c.r, &c.at, scope)
			return err // always: no token has that scope
		}
		return handle(c)
	}
}

// patient bounds how long a request waits. Those that recover ask more servers than the
// database, each with a limit of its own, and an event stream has no end.
func patient(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		ctx, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
		defer cancel()
		c.r = c.r.WithContext(ctx)
		return handle(c)
	}
}

// signedIn requires a session, or a personal access token with the scope of the route.
func signedIn(handle func(*call) error) func(*call) error {
	return func(c *call) (err error) {
		if c.grant, err = c.grantFor(c.r, &c.at, c.scope); err != nil {
			return err
		}
		c.user = c.grant.User
		c.Authenticated(c.r, c.user)
		if err := c.checkTagless(); err != nil {
			return err
		}
		if !c.local { // an operator has no grant, and is in the context already
			c.r = c.r.WithContext(audit.WithLater(c.r.Context(), func() audit.Actor { return c.grant.Actor(c.Client(c.r)) }))
		}
		return handle(c)
	}
}

// withID reads the workspace's id from the path. A malformed id is answered like an
// unknown one.
func withID(handle func(*call) error) func(*call) error {
	return func(c *call) (err error) {
		if c.id, err = workspace.ParseID(c.r.PathValue("id")); err != nil {
			return service.ErrNotFound
		}
		return handle(c)
	}
}

// actor is the user for whom the service acts, on a workspace of a revision that If-Match allows.
func (c *call) actor() service.Actor {
	return service.Actor{UserID: c.user.ID, Admin: c.user.Admin(), Kind: c.through()}.If(c.ifMatch())
}

// self is the user without an administrator's rights: lists and event streams have only
// the user's own workspaces.
func (c *call) self() service.Actor { return service.Actor{UserID: c.user.ID, Kind: c.through()} }

// through is what the history names as the cause of a change.
func (h *Handler) through() string {
	if h.local {
		return "cli"
	}
	return "api"
}
