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

// apiPath is the path of the REST API.
const apiPath = "/api/v1/"

// workspacePath begins the patterns of a single workspace.
const workspacePath = apiPath + "workspaces/{id}"

// recoverAll is the only other path that looks like a workspace's.
const recoverAll = "POST " + apiPath + "workspaces/recover"

// page answers a person's request. If it fails, it returns an error and has sent nothing.
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

// routes returns all paths and methods. A wrong method is answered with 405, and an unknown path of
// the REST API with 404.
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
	for _, r := range Routes() {
		add(r.Pattern, h.endpoint(r.guarded()))
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
	// It handles other methods itself.
	mux.Handle(web.LanguagePath, page(func(w http.ResponseWriter, r *http.Request) error {
		at := h.Site.Parse(r)
		web.SwitchLanguage(&at, w, r)
		return nil
	}))
	// ServeMux prefers patterns with a method, so these patterns get only requests with other methods.
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

// Route is a path and method of the REST API.
type Route struct {
	Pattern string // in the form of [http.ServeMux]
	// Operation is its id in the OpenAPI description; see openapi/operations_test.go for the rest.
	Operation string
	Scope     auth.Scope // that a personal access token needs; a sign-in has all
	guards    guards
	Audit     []audit.Action // that it can add to the audit (SPEC 13)
	handle    func(*call) error
}

// guards are the requirements that do not apply to a route, although they apply to most routes.
type guards int

const (
	open      guards = 1 << iota // needs no sign-in
	unbounded                    // may take longer than the database: see withTimeout
)

// Open reports whether the route needs no sign-in.
func (r Route) Open() bool { return r.guards&open != 0 }

// guarded wraps the handler in its guards.
func (r Route) guarded() func(*call) error {
	handle := r.handle
	if strings.HasPrefix(pathOf(r.Pattern), workspacePath) {
		handle = withID(handle)
	}
	if r.Scope == auth.ScopeAdmin {
		handle = administrator(handle)
	}
	if !r.Open() {
		handle = signedIn(handle)
	}
	if r.guards&unbounded == 0 {
		handle = withTimeout(handle)
	}
	return admit(r.Scope, handle)
}

func pathOf(pattern string) string {
	_, path, _ := strings.Cut(pattern, " ")
	return path
}

// Routes lists the REST API. Tests compare the OpenAPI description, the audit, SPEC 9 and the preview with it.
func Routes() []Route {
	const read, write, admin, people = auth.ScopeRead, auth.ScopeWrite, auth.ScopeAdmin, auth.NoScope
	type acts = []audit.Action
	return []Route{
		{"GET /api/v1/openapi.json", "getDescription", read, open | unbounded, nil, (*call).description},
		{"POST /api/v1/auth/login", "signIn", people, open, acts{audit.UserSignIn}, (*call).login},
		{"POST /api/v1/auth/logout", "signOut", people, open, acts{audit.UserSignOut}, (*call).logout},
		{"GET /api/v1/auth/session", "getSession", read, 0, nil, (*call).session},
		{"GET /api/v1/me", "getMe", read, 0, nil, (*call).session},
		{"POST /api/v1/me/password", "changePassword", people, 0, acts{audit.UserPassword, audit.UserSignIn}, (*call).changePassword},
		{"GET /api/v1/me/audit", "readOwnAudit", read, 0, nil, (*call).ownAudit},
		{"GET /api/v1/sessions", "listSessions", read, 0, nil, (*call).listSessions},
		{"DELETE /api/v1/sessions", "endOtherSessions", people, 0, acts{audit.UserSignOut}, (*call).endSessions},
		{"DELETE /api/v1/sessions/{id}", "endSession", people, 0, acts{audit.UserSignOut}, (*call).endSessions},
		{"GET /api/v1/tokens", "listTokens", read, 0, nil, (*call).listTokens},
		{"POST /api/v1/tokens", "createToken", people, 0, acts{audit.TokenCreate}, (*call).createToken},
		{"DELETE /api/v1/tokens/{id}", "revokeToken", write, 0, acts{audit.TokenRevoke}, (*call).revokeToken},
		{"GET /api/v1/users", "listUsers", admin, 0, nil, (*call).listUsers},
		{"POST /api/v1/users", "createUser", admin, 0, acts{audit.UserCreate}, (*call).createUser},
		{"GET /api/v1/users/{id}", "getUser", admin, 0, nil, (*call).getUser},
		{"PATCH /api/v1/users/{id}", "changeUser", admin, 0, acts{audit.UserPassword, audit.UserRole, audit.UserDisable, audit.UserLimits, audit.UserEnable}, (*call).patchUser},
		{"POST /api/v1/users/{id}/sign-out", "signOutUser", admin, 0, acts{audit.UserSignOut}, (*call).signOutUser},
		{"POST /api/v1/users/{id}/unlock", "unlockUser", admin, 0, acts{audit.UserUnlock}, (*call).unlockUser},
		{"GET /api/v1/admin/overview", "getOverview", admin, 0, nil, (*call).overview},
		{"GET /api/v1/admin/history", "allHistory", admin, 0, nil, (*call).allHistory},
		{"GET /api/v1/admin/audit", "readAudit", admin, unbounded, nil, (*call).readAudit},
		{"POST /api/v1/admin/gc", "collectArchives", admin, unbounded, acts{audit.SystemCollect}, (*call).collect},
		{"POST /api/v1/admin/scrub", "scrubArchives", admin, 0, acts{audit.SystemScrub}, (*call).scrubArchives},
		{"GET /api/v1/admin/report", "report", admin, 0, nil, (*call).allReport},
		{"GET /api/v1/report", "ownReport", read, 0, nil, (*call).ownReport},
		{"GET /api/v1/events", "streamEvents", read, unbounded, nil, (*call).events},
		{"GET /api/v1/limits", "getLimits", read, 0, nil, (*call).getLimits},
		{"GET /api/v1/images", "listImages", read, 0, nil, (*call).listImages},
		{"GET /api/v1/workspaces", "listWorkspaces", read, 0, nil, (*call).listWorkspaces},
		{"POST /api/v1/workspaces", "createWorkspace", write, 0, acts{audit.WorkspaceCreate}, (*call).createWorkspace},
		{"GET /api/v1/workspaces/{id}", "getWorkspace", read, 0, nil, (*call).getWorkspace},
		{"PATCH /api/v1/workspaces/{id}", "changeWorkspace", write, 0, acts{audit.WorkspaceEdit, audit.WorkspaceStart, audit.WorkspaceSleep, audit.WorkspaceArchive}, (*call).patchWorkspace},
		{"DELETE /api/v1/workspaces/{id}", "deleteWorkspace", write, 0, acts{audit.WorkspaceDelete}, (*call).deleteWorkspace},
		{"GET /api/v1/workspaces/{id}/exec", "execSocket", write, unbounded, acts{audit.WorkspaceExec}, (*call).execSocketWorkspace},
		{"POST /api/v1/workspaces/{id}/exec", "exec", write, unbounded, acts{audit.WorkspaceExec}, (*call).execWorkspace},
		{"GET /api/v1/workspaces/{id}/archives", "listArchives", read, 0, nil, (*call).listArchives},
		{"POST /api/v1/workspaces/{id}/archives/restore", "restoreArchive", write, 0, acts{audit.WorkspaceRestore}, (*call).restoreArchive},
		{"GET /api/v1/workspaces/{id}/explain", "explainWorkspace", read, 0, nil, (*call).explainWorkspace},
		{"GET /api/v1/workspaces/{id}/history", "workspaceHistory", read, 0, nil, (*call).workspaceHistory},
		{"GET /api/v1/workspaces/{id}/logs", "workspaceLogs", read, unbounded, nil, (*call).workspaceLogs},
		{"GET /api/v1/workspaces/{id}/stats", "workspaceStats", read, unbounded, nil, (*call).workspaceStats},
		{"POST /api/v1/workspaces/{id}/start", "startWorkspace", write, 0, acts{audit.WorkspaceStart}, setDesired(workspace.DesiredRunning)},
		{"POST /api/v1/workspaces/{id}/sleep", "sleepWorkspace", write, 0, acts{audit.WorkspaceSleep}, setDesired(workspace.DesiredStandby)},
		{"POST /api/v1/workspaces/{id}/archive", "archiveWorkspace", write, 0, acts{audit.WorkspaceArchive}, setDesired(workspace.DesiredArchived)},
		{"POST /api/v1/workspaces/{id}/keep-awake", "keepAwake", write, 0, acts{audit.WorkspaceKeepAwake}, (*call).keepAwake},
		{"POST /api/v1/workspaces/{id}/recover", "recoverWorkspace", admin, unbounded, acts{audit.WorkspaceRecover}, (*call).recoverWorkspace},
		{"POST /api/v1/workspaces/{id}/undelete", "undeleteWorkspace", write, 0, acts{audit.WorkspaceUndelete}, (*call).undeleteWorkspace},
		{recoverAll, "recoverWorkspaces", admin, unbounded, acts{audit.WorkspaceRecover}, (*call).recoverWorkspaces},
	}
}

// notAllowed refuses all but the methods of a path.
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
	scope auth.Scope   // that a personal access token needs
	user  auth.User    // behind signedIn
	grant auth.Grant   // behind signedIn
	id    workspace.ID // behind withID
	// fromMemory is true if the answer needed no database.
	fromMemory bool
}

// endpoint returns an endpoint that sends errors as problems. It logs the errors that are the server's fault, but an
// outage only once, however many requests it affects.
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
		if err == nil || r.Context().Err() != nil { // answered, or the client has disconnected
			return
		}
		c.refused(r.Context(), err).Write(w, r) // the context of the call has ended
	}
}

// refused returns the problem for the client, and logs errors that are the server's fault.
func (c *call) refused(ctx context.Context, err error) *problem.Problem {
	p := c.problem(ctx, err)
	c.auditRefusal(ctx, p, err)
	fields := []zap.Field{zap.String(logkey.Method, c.r.Method), zap.String(logkey.Path, c.r.URL.Path)}
	switch {
	case p.Type == problem.Outdated.Type: // the coordinator has logged it
	case p.Type == problem.CommandLost.Type && p.Cause == nil: // the client, its session or this configuration has ended
	case p.Type == problem.Unavailable.Type:
		c.away.Failed(err, fields...)
	case p.Status >= http.StatusInternalServerError:
		c.Logger.Error("API request failed", append(fields, zap.Int(logkey.Status, p.Status), zap.Error(err))...)
	}
	return p
}

// admit refuses all requests in a process that must no longer serve. It also refuses requests from pages of other
// origins, and requests to hosts other than the main site's. It waits for a coordinator that is starting. A personal
// access token needs the route's scope even on a route without signedIn.
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

// withTimeout ends a request that waits longer than a statement may take. It is not used for recovery routes, which
// also call other servers with timeouts of their own, and for event streams, which never end.
func withTimeout(handle func(*call) error) func(*call) error {
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
		if !c.local { // an operator has no grant, and is already in the context
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

// actor returns the user for whom the service acts, together with the workspace revisions that If-Match allows.
func (c *call) actor() service.Actor {
	return service.Actor{UserID: c.user.ID, Admin: c.user.Admin(), Through: c.through()}.If(c.ifMatch())
}

// self returns the user without an administrator's rights, because lists and event streams contain only the user's own
// workspaces.
func (c *call) self() service.Actor { return service.Actor{UserID: c.user.ID, Through: c.through()} }

// through is the cause of a change in the history.
func (h *Handler) through() audit.Through {
	if h.local {
		return audit.CLI
	}
	return audit.API
}
