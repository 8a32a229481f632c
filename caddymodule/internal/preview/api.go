package preview

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// heartbeat is the interval of heartbeats in an event stream.
const heartbeat = 30 * time.Second

// apiRoutes registers the routes that the pages' scripts call. They answer with objects of package v1, for the board of
// the page in the request's Referer.
func (p *Preview) apiRoutes() {
	const base = "/api/v1/"
	for pattern, answer := range map[string]func(*board, *http.Request) any{
		"GET " + base + "auth/session":             (*board).session,
		"GET " + base + "sessions":                 (*board).sessions,
		"GET " + base + "tokens":                   (*board).tokens,
		"GET " + base + "users":                    (*board).users,
		"GET " + base + "admin/overview":           (*board).overview,
		"GET " + base + "admin/history":            (*board).allHistory,
		"GET " + base + "admin/audit":              (*board).allAudit,
		"GET " + base + "admin/report":             (*board).report,
		"GET " + base + "me/audit":                 (*board).ownAudit,
		"GET " + base + "report":                   (*board).report,
		"GET " + base + "limits":                   (*board).limits,
		"GET " + base + "images":                   (*board).images,
		"GET " + base + "workspaces":               (*board).list,
		"GET " + base + "workspaces/{id}/explain":  (*board).explain,
		"GET " + base + "workspaces/{id}/archives": (*board).archives,
		"GET " + base + "workspaces/{id}/history":  (*board).history,
		"GET /health/coordinator":                  (*board).health,
	} {
		p.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			b := p.boardOf(r)
			if b.expired {
				problem.Of(auth.ErrNoSession).Write(w, r)
				return
			}
			sendJSON(w, http.StatusOK, answer(b, r))
		})
	}
	p.mux.HandleFunc("GET "+base+"events", p.events)
	p.mux.HandleFunc("GET "+base+"workspaces/{id}/logs", p.logs)
	p.mux.HandleFunc("GET "+base+"workspaces/{id}/stats", p.stats)
	p.mux.HandleFunc("GET "+base+"workspaces/{id}", func(w http.ResponseWriter, r *http.Request) {
		b := p.boardOf(r)
		b.mu.Lock()
		defer b.mu.Unlock()
		if row := b.find(r.PathValue("id")); row != nil {
			b.send(w, http.StatusOK, *row)
			return
		}
		problem.Of(service.ErrNotFound).Write(w, r)
	})
	p.mux.HandleFunc(base, func(w http.ResponseWriter, r *http.Request) { // every change
		b := p.boardOf(r)
		switch {
		case b.refuse != nil:
			b.refuse.Write(w, r)
		case r.Method == http.MethodPost && r.URL.Path == base+"tokens":
			sendJSON(w, http.StatusCreated, v1.NewToken{
				Token: v1.TokenOf(accessTokens()[0]), Secret: auth.TokenPrefix + "of-the-preview-it-opens-nothing-anywhere-00",
			})
		case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, base+"tokens/"):
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == base+"admin/scrub":
			var in struct {
				Dry bool `json:"dry_run"`
			}
			_ = json.NewDecoder(r.Body).Decode(&in) // our own page sent it
			status, found := http.StatusOK, store.Scrub{
				Archives: 97, Bytes: 310 << 30, Unread: 3, OldestRead: time.Now().Add(-5 * 24 * time.Hour), Left: 7, LeftBytes: 21 << 30,
			}
			if !in.Dry {
				status, found.Left, found.LeftBytes = http.StatusAccepted, found.Archives, found.Bytes
			}
			sendJSON(w, status, v1.ScrubOf(found, in.Dry))
		case r.URL.Path == base+"auth/logout" || r.URL.Path == base+"auth/login":
			sendJSON(w, http.StatusOK, map[string]string{"redirect": "/"})
		case b.changes != nil && strings.HasPrefix(r.URL.Path, base+"workspaces"):
			b.change(w, r, strings.TrimPrefix(r.URL.Path, base+"workspaces"))
		default:
			problem.Of(service.ErrOperationInProgress).Write(w, r)
		}
	})
}

// boardOf returns the board of the page that sent the request.
func (p *Preview) boardOf(r *http.Request) *board {
	if page, err := url.Parse(r.Referer()); err == nil {
		for _, e := range p.entries {
			if e.Path() == page.Path && e.board != nil {
				return e.board
			}
		}
	}
	return &board{}
}

// events sends the board as an event stream: every workspace, then heartbeats.
func (p *Preview) events(w http.ResponseWriter, r *http.Request) {
	b := p.boardOf(r)
	if b.expired {
		problem.Of(auth.ErrNoSession).Write(w, r)
		return
	}
	if b.lost {
		problem.Unavailable.With("problem.try_again", nil).Write(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	known := make(map[workspace.ID]bool)
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		if err := b.sendAll(w, known); err != nil {
			return
		}
		fmt.Fprint(w, "event: heartbeat\ndata: {}\n\n")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		case <-b.changed():
		}
	}
}

// sendAll writes an event for each workspace, and for each known one that is gone.
func (b *board) sendAll(w http.ResponseWriter, known map[workspace.ID]bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := maps.Clone(known)
	for _, row := range b.rows {
		known[row.ID] = true
		delete(gone, row.ID)
		body, err := json.Marshal(b.body(row))
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "event: workspace_updated\ndata: %s\n\n", body)
	}
	for id := range gone {
		delete(known, id)
		fmt.Fprintf(w, "event: workspace_deleted\ndata: {\"id\": %q}\n\n", id)
	}
	return nil
}

// session answers with the user who looks at the board.
func (b *board) session(*http.Request) any {
	u := auth.User{ID: ownerID, Username: ownerName, Role: auth.RoleUser}
	if b.admin {
		u.Role = auth.RoleAdmin
	}
	return v1.UserOf(u)
}

func (b *board) limits(*http.Request) any {
	limits := service.DefaultLimits()
	if b.changes != nil {
		limits.PerUser = liveLimit
	}
	return v1.LimitsOf(limits)
}

func (b *board) images(*http.Request) any { return v1.ImagesOf(images, imageSizes, b.admin) }

// health answers with the problems that an administrator has to fix.
func (b *board) health(*http.Request) any {
	return map[string]any{"is_leader": true, "problems": append([]string{}, b.problems...)}
}

// body returns a workspace as the API shows it.
func (b *board) body(w workspace.Workspace) v1.Workspace {
	return v1.WorkspaceOf(w, v1.View{
		Admin: b.admin, URL: wakePath, HomeWarn: homeWarn, Standby: delays.Standby, DeletionDelay: deletionDelay,
	})
}

// list answers with one of the three lists of workspaces.
func (b *board) list(r *http.Request) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.URL.Query().Get("all") != "" {
		owned := []v1.OwnedWorkspace{}
		for _, w := range b.others {
			w.OwnerID = "other"
			owned = append(owned, v1.OwnedWorkspace{Workspace: b.body(w), Owner: "jisoo"})
		}
		for _, w := range b.rows {
			if r.URL.Query().Get("phase") == "" {
				owned = append(owned, v1.OwnedWorkspace{Workspace: b.body(w), Owner: ownerName})
			}
		}
		return v1.PageOf(owned, "")
	}
	rows := b.rows
	if r.URL.Query().Get("deleted") != "" {
		rows = b.deleted
	}
	bodies := []v1.Workspace{}
	for _, w := range rows {
		bodies = append(bodies, b.body(w))
	}
	return v1.PageOf(bodies, "")
}

// find returns the workspace with an id, or nil. The caller holds b.mu.
func (b *board) find(id string) *workspace.Workspace {
	at := slices.IndexFunc(b.rows, func(w workspace.Workspace) bool { return string(w.ID) == id })
	if at < 0 {
		return nil
	}
	return &b.rows[at]
}

// of returns the workspace of a request, or an empty one.
func (b *board) of(r *http.Request) workspace.Workspace {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w := b.find(r.PathValue("id")); w != nil {
		return *w
	}
	return workspace.Workspace{}
}

// transitions returns a history of a workspace, newest first.
func transitions(w workspace.Workspace) []store.Transition {
	now := time.Now()
	return []store.Transition{
		{ID: 5, At: now.Add(-30 * time.Minute), Kind: store.KindPhase, New: string(w.Phase), Cause: "controller"},
		{ID: 4, At: now.Add(-40 * time.Minute), Kind: store.KindWaiting, New: workspace.WaitJobQueue, Cause: "controller"},
		{
			ID: 3, At: now.Add(-time.Hour), Kind: store.KindDesiredState, New: string(w.DesiredState),
			Cause: "api", UserID: ownerID, Username: ownerName,
		},
		{
			ID: 2, At: now.Add(-30 * time.Hour), Kind: store.KindError, New: string(workspace.ReasonActionFailed),
			Message: "exit status 1", Cause: "controller",
		},
		{ID: 1, At: now.Add(-90 * time.Hour), Kind: store.KindCreated, Cause: "api", UserID: ownerID, Username: ownerName},
	}
}

// history answers with the history of a workspace.
func (b *board) history(r *http.Request) any {
	answer := struct {
		Items []v1.Transition `json:"items"`
		Next  *int64          `json:"next_before"`
	}{Items: []v1.Transition{}}
	happened := transitions(b.of(r))
	if !b.admin {
		happened = explain.OwnersHistory(happened)
	}
	for _, t := range happened {
		answer.Items = append(answer.Items, v1.TransitionOf(t))
	}
	return answer
}

// explain answers with the explanation of a workspace's state.
func (b *board) explain(r *http.Request) any {
	w, now := b.of(r), time.Now()
	e := explain.Explain(now, w, delays, transitions(w))
	if !b.admin {
		e = e.ForOwner()
	}
	return e
}

// delays are the settings of the installation.
var delays = explain.Delays{
	Doze: 55 * time.Minute, Standby: time.Hour, Archive: 24 * time.Hour, TTLInterval: time.Minute, WorkCap: 12 * time.Hour,
	KeepDeleted: deletionDelay, Timeouts: planner.DefaultTimeouts(), MaxRetry: 3, WaitLimit: 10 * time.Minute,
	HomeWarn: homeWarn,
}

// images are the images that users can choose.
var images = launch.Catalog{
	{
		Name: "default", Reference: "registry.example/ide:1", Title: "VS Code", Description: "An editor and the usual tools",
		Icon: "code", Git: true,
	},
	{Name: "python", Reference: "registry.example/python:1", Description: "Notebooks", Icon: "notebook"},
}

// imageSizes has the sizes of the images that are present.
var imageSizes = map[string]int64{"registry.example/ide:1": 1_240e6}

// archives answers with the archives of a workspace, if it has any.
func (b *board) archives(r *http.Request) any {
	w, now := b.of(r), time.Now()
	if w.ArchiveKey == "" {
		return v1.ListOf(v1.ArchivesOf(nil))
	}
	made := func(key string, age time.Duration, a service.Archive) service.Archive {
		a.Key, a.Size, a.Content, a.Files, a.CreatedAt = key, 900e6, 3400e6, 41_000, now.Add(-age)
		return a
	}
	current := service.Archive{Current: true, Archive: store.Archive{VerifiedAt: now, Damage: w.ArchiveDamage}}
	return v1.ListOf(v1.ArchivesOf([]service.Archive{
		made("new", time.Hour, current), made("kept", 30*time.Hour, service.Archive{Kept: true}),
		made("old", 90*time.Hour, service.Archive{}),
	}))
}

// sessions answers with sign-ins of the user.
func (b *board) sessions(*http.Request) any {
	now := time.Now()
	signIn := func(id, agent, address string) auth.OpenSession {
		return auth.OpenSession{
			ID: id, Client: auth.Client{Address: address, Agent: agent}, Current: id == "1",
			CreatedAt: now.Add(-50 * time.Hour), LastUsedAt: now.Add(-time.Hour), ExpiresAt: now.Add(50 * time.Hour),
		}
	}
	return v1.ListOf(v1.SessionsOf([]auth.OpenSession{
		signIn("1", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0", "192.0.2.1"),
		signIn("2", "curl/8.5.0", "192.0.2.2"), signIn("3", "", "2001:db8::1"),
	}))
}

// tokens answers with the user's access tokens. A user without workspaces has none.
func (b *board) tokens(*http.Request) any {
	if len(b.rows) == 0 {
		return v1.ListOf([]v1.Token{})
	}
	return v1.ListOf(v1.TokensOf(accessTokens()))
}

// overview counts the board's workspaces. The disk in it is nearly full.
func (b *board) overview(*http.Request) any {
	o := v1.Overview{
		Phases: map[string]int{}, Operations: map[string]int{}, Waiting: map[string]int{}, Errors: map[string]int{},
		MaxRunning: new(service.DefaultMaxRunningGlobal), MaxDozing: new(service.DefaultMaxDozingGlobal), Users: 3, HomeBytes: 48 << 30, Disk: &v1.DiskUse{Used: 780 << 30, Total: 900 << 30},
		Archives: v1.ArchiveHealth{Current: 41, Damaged: 1, Unverified: 3, Oldest: 5 * 24 * 3600, ToRead: 7, ToReadBytes: 21 << 30},
		Leaders:  []v1.Leader{{Lock: "coordinator", Node: "gateway-1", Epoch: 12, Since: time.Now().Add(-26 * time.Hour)}},
		Node:     "gateway-1", Uptime: 93600, Problems: []string{},
	}
	for _, w := range b.rows {
		o.Phases[string(w.Phase)]++
		if w.Dozes() {
			o.Dozing++
		}
		if w.Waiting != nil {
			o.Waiting[w.Waiting.Reason]++
		}
		if w.ErrorReason != "" {
			o.Errors[string(w.ErrorReason)]++
		}
	}
	o.Running = o.Phases[string(workspace.PhaseRunning)] - o.Dozing
	return o
}

// allHistory answers with one event of each workspace on the board.
func (b *board) allHistory(*http.Request) any {
	page := v1.History[v1.Event]{Items: []v1.Event{}}
	for i, w := range b.rows {
		page.Items = append(page.Items, v1.EventOf(store.Event{
			Transition:  store.Transition{ID: int64(100 - i), At: time.Now().Add(-time.Duration(i) * time.Hour), Kind: store.KindPhase, Old: "STANDBY", New: string(w.Phase), Cause: "controller"},
			WorkspaceID: w.ID, Name: w.Name, Owner: ownerName,
		}))
	}
	return page
}

// users answers with an administrator, a user with a limit of their own, and a disabled user.
func (b *board) users(*http.Request) any {
	at := time.Now().Add(-90 * 24 * time.Hour)
	return v1.PageOf([]v1.Account{
		v1.AccountOf(auth.Account{User: auth.User{ID: ownerID, Username: ownerName, Role: auth.RoleAdmin}, HasPassword: true, CreatedAt: at, LastSignInAt: time.Now(), Workspaces: len(b.rows), Running: 1}),
		v1.AccountOf(auth.Account{User: auth.User{ID: "2", Username: "mina", Role: auth.RoleUser}, HasPassword: true, CreatedAt: at, Workspaces: 3, MaxRunning: 5}),
		v1.AccountOf(auth.Account{User: auth.User{ID: "3", Username: "yuna@example.com", Role: auth.RoleUser}, Disabled: true, CreatedAt: at, Workspaces: 1}),
	}, "")
}

// accessTokens returns an unused token, a used one, and one that expires soon.
func accessTokens() []auth.Token {
	now := time.Now()
	made := func(id, name string, left time.Duration, of ...auth.Scope) auth.Token {
		return auth.Token{ID: id, Name: name, Scopes: of, CreatedAt: now.Add(left - 30*24*time.Hour), ExpiresAt: now.Add(left)}
	}
	used := made("2", "nightly build", 12*24*time.Hour, auth.ScopeWrite, auth.ScopeWorkspace)
	used.LastUsedAt, used.LastUsedAddress = now.Add(-7*time.Minute), "192.0.2.17"
	ends := made("3", "laptop", 20*time.Hour, auth.Scopes()...)
	ends.LastUsedAt, ends.LastUsedAddress = now.Add(-9*24*time.Hour), "2001:db8::17"
	return []auth.Token{made("1", "backup", 30*24*time.Hour, auth.ScopeRead), used, ends}
}
