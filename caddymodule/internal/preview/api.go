package preview

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// apiRoutes makes the real API answer the requests of pages' scripts. The data comes from the board of the page whose
// script sends the request.
func (p *Preview) apiRoutes() {
	answer := func(w http.ResponseWriter, r *http.Request) {
		h, err := p.boardOf(r).api()
		if err != nil {
			answered(w, err)
			return
		}
		r = r.Clone(r.Context())
		r.Host = "localhost" // where people sign in, wherever the preview listens
		r.Header.Del("Origin")
		r.AddCookie(&http.Cookie{Name: site.SessionCookie, Value: "preview"})
		h.ServeHTTP(w, r)
	}
	p.mux.HandleFunc("/api/v1/", answer)
	p.mux.HandleFunc("/health/coordinator", answer)
}

// boardOf returns the board of the page from which a script asks.
func (p *Preview) boardOf(r *http.Request) *board {
	if page, err := url.Parse(r.Referer()); err == nil {
		for _, e := range p.entries {
			if e.Path() == page.Path && e.board != nil {
				return e.board
			}
		}
	}
	return p.nobody
}

// api returns the API that knows this board alone.
func (b *board) api() (*api.Handler, error) {
	b.made.Do(func() {
		b.hub = events.NewHub()
		b.handler, b.failed = api.New(api.Options{
			Site: site.New(site.Options{}), Service: workspaces{b}, Auth: accounts{b}, Audit: log{b}, Usage: used{b}, Hub: b.hub,
			Containers: containers{b}, Administration: administration{b}, DeletionDelay: deletionDelay,
			Health: func() coordinator.Health {
				return coordinator.Health{IsLeader: true, NodeID: "gateway-1", Uptime: 26 * time.Hour, Problems: b.problems}
			},
			WaitReady: func(context.Context) error { return nil }, Database: func() string { return "" },
			Exiting: func() bool { return false }, Refused: func() *postgres.OlderError { return nil },
			ClientAddress: func(*http.Request) string { return "" },
			Client:        func(*http.Request) audit.Actor { return audit.Actor{Kind: audit.Anonymous} },
			Authenticated: func(*http.Request, auth.User) {}, Heartbeat: events.DefaultHeartbeat,
		})
	})
	return b.handler, b.failed
}

// workspaces are the workspaces of a board. They change without intermediate steps: a workspace reaches the requested
// state immediately.
type workspaces struct{ *board }

func (workspaces) Images() launch.Catalog { return images }
func (workspaces) Delays() explain.Delays { return delays }

func (b workspaces) Limits() service.Limits {
	limits := service.DefaultLimits()
	if b.live {
		limits.PerUser = liveLimit
	}
	return limits
}

func (b workspaces) LimitsOf(context.Context, string) (service.Limits, error) { return b.Limits(), nil }

func (b workspaces) List(_ context.Context, _ service.Actor, o service.ListOptions, limit int, cursor string) (
	page []store.Listed, next string, err error,
) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []store.Listed
	add := func(owner string, rows []workspace.Workspace) {
		for _, w := range rows {
			if owner != ownerName {
				w.OwnerID = owner
			}
			if len(o.Phases) == 0 || slices.Contains(o.Phases, w.Phase) {
				all = append(all, store.Listed{Workspace: w, Owner: owner, Kept: w.Home.Bytes})
			}
		}
	}
	switch {
	case o.Deleted:
		add(ownerName, b.deleted)
	case o.All:
		add("jisoo", b.others)
		fallthrough
	default:
		add(ownerName, b.rows)
	}
	begin, _ := strconv.Atoi(cursor) // of our own
	end := min(begin+cmp.Or(limit, service.DefaultPage), len(all))
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return all[begin:end], next, nil
}

func (b workspaces) Running(context.Context, string) ([]workspace.Workspace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.running(), nil
}

func (b workspaces) Several(_ context.Context, ids []workspace.ID) (found []workspace.Workspace, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.rows {
		if slices.Contains(ids, w.ID) {
			found = append(found, w)
		}
	}
	return found, nil
}

func (b workspaces) Position(context.Context) (store.Position, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lost {
		return store.Position{}, errors.New("the preview of a lost connection")
	}
	return store.Position{Revision: b.revision}, nil
}

// ChangedSince is never called, because no position follows another here.
func (workspaces) ChangedSince(context.Context, service.Actor, store.Position, workspace.ID, int) ([]workspace.Workspace, error) {
	return nil, nil
}

// Events returns one event for each of the board's workspaces.
func (b workspaces) Events(context.Context, service.Actor, int, int64) (all []store.Event, err error) {
	for i, w := range b.rows {
		all = append(all, store.Event{
			Transition: store.Transition{ID: int64(100 - i), At: time.Now().Add(-time.Duration(i) * time.Hour), Kind: store.KindPhase, Old: "STANDBY",
				New: string(w.Phase), Cause: "controller"},
			WorkspaceID: w.ID, Name: w.Name, Owner: ownerName,
		})
	}
	return all, nil
}

func (b workspaces) Get(_ context.Context, _ service.Actor, id workspace.ID) (workspace.Workspace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if row := b.find(id); row != nil {
		return *row, nil
	}
	return workspace.Workspace{}, service.ErrNotFound
}

func (b workspaces) Explain(ctx context.Context, a service.Actor, id workspace.ID) (explain.Explanation, error) {
	w, err := b.Get(ctx, a, id)
	if err != nil {
		return explain.Explanation{}, err
	}
	e := explain.Explain(time.Now(), w, delays, transitions(w))
	if !a.Admin {
		e = e.ForOwner()
	}
	return e, nil
}

func (b workspaces) History(ctx context.Context, a service.Actor, id workspace.ID, _ int, _ int64) ([]store.Transition, error) {
	w, err := b.Get(ctx, a, id)
	happened := transitions(w)
	if !a.Admin {
		happened = explain.OwnersHistory(happened)
	}
	return happened, err
}

func (b workspaces) Archives(ctx context.Context, a service.Actor, id workspace.ID) ([]service.Archive, error) {
	w, err := b.Get(ctx, a, id)
	if err != nil || w.ArchiveKey == "" {
		return nil, err
	}
	now := time.Now()
	made := func(key string, age time.Duration, a service.Archive) service.Archive {
		a.Key, a.Size, a.Content, a.Files, a.CreatedAt = key, 900e6, 3400e6, 41_000, now.Add(-age)
		return a
	}
	current := service.Archive{Current: true, Archive: store.Archive{VerifiedAt: now, Damage: w.ArchiveDamage}}
	return []service.Archive{
		made("new", time.Hour, current), made("kept", 30*time.Hour, service.Archive{Kept: true}),
		made("old", 90*time.Hour, service.Archive{}),
	}, nil
}

// transitions are what happened to a workspace, newest first.
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

// delays are the installation's delays.
var delays = explain.Delays{
	Doze: 55 * time.Minute, Standby: time.Hour, Archive: 24 * time.Hour, TTLInterval: time.Minute, WorkCap: 12 * time.Hour,
	KeepDeleted: deletionDelay, Timeouts: planner.DefaultTimeouts(), MaxRetry: 3, WaitLimit: 10 * time.Minute,
	HomeWarn: homeWarn,
}

// images are the available images.
var images = launch.Catalog{
	{
		Name: "default", Reference: "registry.example/ide:1", Title: "VS Code", Description: "An editor and the usual tools",
		Icon: "code", Git: true,
	},
	{Name: "python", Reference: "registry.example/python:1", Description: "Notebooks", Icon: "notebook"},
}

// imageSizes are the sizes of the images that are present.
var imageSizes = map[string]int64{"registry.example/ide:1": 1_240e6}
