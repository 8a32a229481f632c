// Package service is the one way to wish (SPEC 1, contract 3): the API, the
// gateway's auto-wake, the TTL runner and the command line all come here, and
// nothing else writes desired_state or deleted_at. Ownership, a running operation
// and the limits are judged by the statement that writes, so they hold however
// many ask at once.
package service

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/google/uuid"
	"go.uber.org/zap"
)

// Limits are the most workspaces that may be running or asked to at a time, for
// one user and in all (SPEC 5). Zero and less mean no limit.
type Limits struct{ PerUser, Global int }

// Defaults of [Limits] (SPEC 5).
const (
	DefaultMaxRunningPerUser = 2
	DefaultMaxRunningGlobal  = 100
)

// Options configure a [Service].
type Options struct {
	// InstanceBackend, "docker" or "kubernetes", and StorageBackend are written
	// into new workspaces. Both default to "docker".
	InstanceBackend, StorageBackend string
	// Limits hold from the start; SetLimits changes them. The zero value means no
	// limits.
	Limits Limits
	// Logger is told of every wish that changed something.
	Logger *zap.Logger
}

// Service accepts wishes. It is safe for concurrent use.
type Service struct {
	store           *store.Store
	instance, space string
	limits          atomic.Pointer[Limits]
	log             *zap.Logger
}

// New returns a Service over st.
func New(st *store.Store, o Options) *Service {
	s := &Service{store: st, instance: o.InstanceBackend, space: o.StorageBackend, log: o.Logger}
	if s.instance == "" {
		s.instance = "docker"
	}
	if s.space == "" {
		s.space = "docker"
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.SetLimits(o.Limits)
	return s
}

// SetLimits changes the limits for wishes from now on. What runs already, runs on.
func (s *Service) SetLimits(l Limits) { s.limits.Store(&l) }

func (s *Service) storeLimits() store.Limits {
	l := s.limits.Load()
	return store.Limits{PerUser: l.PerUser, Global: l.Global}
}

// Actor is who wishes.
type Actor struct {
	// UserID sees and changes only the user's own workspaces.
	UserID string
	// Admin sees all of them by id, deleted ones too, and may recover them.
	Admin bool
	// Kind, for the log, is what the wish came through: "api", "gateway", "ttl".
	Kind string
}

func (a Actor) viewer() store.Viewer { return store.Viewer{UserID: a.UserID, All: a.Admin} }

// seeable reports whether the ids can be asked for at all; what is not a UUID
// names nothing.
func seeable(a Actor, id workspace.ID) bool {
	if _, err := workspace.ParseID(string(id)); err != nil {
		return false
	}
	return a.Admin && a.UserID == "" || uuid.Validate(a.UserID) == nil
}

// CreateInput describes a new workspace. An empty ImageRef means the default image.
type CreateInput struct{ Name, Description, ImageRef string }

// Create adds a workspace of the actor's that is wished to run. It returns
// [*InvalidError] and [*LimitError].
func (s *Service) Create(ctx context.Context, a Actor, in CreateInput) (workspace.Workspace, error) {
	in, err := in.clean()
	if err != nil {
		return workspace.Workspace{}, err
	}
	if uuid.Validate(a.UserID) != nil {
		return workspace.Workspace{}, ErrForbidden
	}
	id := workspace.ID(uuid.NewString())
	limits := s.storeLimits()
	w, verdict, err := s.store.Create(ctx, workspace.Workspace{
		ID: id, OwnerID: a.UserID, Name: in.Name, Description: in.Description, ImageRef: in.ImageRef,
		InstanceBackend: s.instance, StorageBackend: s.space,
	}, limits)
	if err == nil {
		err = refusal(verdict, limits)
	}
	if err != nil {
		return workspace.Workspace{}, err
	}
	s.wished(a, id, "created", workspace.DesiredRunning)
	return w, nil
}

// Get returns a workspace of the actor's.
func (s *Service) Get(ctx context.Context, a Actor, id workspace.ID) (workspace.Workspace, error) {
	if !seeable(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	w, err := s.store.Get(ctx, a.viewer(), id)
	return w, translate(err)
}

// Page sizes of [Service.List].
const (
	DefaultPage = 50
	MaxPage     = 200
)

// List returns at most limit (0: [DefaultPage]; at most [MaxPage]) of the actor's
// own workspaces, newest first, without deleted ones. next is the cursor of the
// page that follows, or empty at the end. It returns [*InvalidError] for a cursor
// that it has not given out.
func (s *Service) List(ctx context.Context, a Actor, limit int, cursor string) (items []workspace.Workspace, next string, err error) {
	if uuid.Validate(a.UserID) != nil {
		return nil, "", nil
	}
	if limit <= 0 {
		limit = DefaultPage
	}
	limit = min(limit, MaxPage)
	at, id, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	items, err = s.store.List(ctx, a.UserID, limit+1, at, id)
	if err != nil {
		return nil, "", err
	}
	if len(items) > limit {
		items = items[:limit]
		last := items[limit-1]
		next = formatCursor(last.CreatedAt, last.ID)
	}
	return items, next, nil
}

// Patch is a change; nil fields stay as they are.
type Patch struct {
	Name, Description, Memo *string
	// DesiredState may be ARCHIVED, STANDBY or RUNNING.
	DesiredState *workspace.DesiredState
}

// Update changes a workspace, all of the patch or nothing, and returns it as it
// is then. Besides [*InvalidError] it returns what [Service.SetDesired] does.
func (s *Service) Update(ctx context.Context, a Actor, id workspace.ID, p Patch) (workspace.Workspace, error) {
	p, err := p.clean()
	if err != nil {
		return workspace.Workspace{}, err
	}
	if !seeable(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	limits := s.storeLimits()
	w, verdict, err := s.store.Wish(ctx, a.viewer(), id,
		store.Wish{Name: p.Name, Description: p.Description, Memo: p.Memo, Desired: p.DesiredState}, limits)
	if err == nil {
		err = refusal(verdict, limits)
	}
	if err != nil {
		return workspace.Workspace{}, translate(err)
	}
	if verdict == store.Changed {
		s.wished(a, id, "wished", *p.DesiredState)
	}
	return w, nil
}

// SetDesired wishes for ARCHIVED, STANDBY or RUNNING. What is already wished for
// succeeds, also during an operation; any other wish is refused then with
// [ErrOperationInProgress]. A wish for RUNNING may be refused with [*LimitError].
func (s *Service) SetDesired(ctx context.Context, a Actor, id workspace.ID, d workspace.DesiredState) error {
	_, err := s.Update(ctx, a, id, Patch{DesiredState: &d})
	return err
}

// Delete wishes a workspace away. From now on its owner no longer sees it.
func (s *Service) Delete(ctx context.Context, a Actor, id workspace.ID) error {
	if !seeable(a, id) {
		return ErrNotFound
	}
	verdict, err := s.store.Delete(ctx, a.viewer(), id)
	if err == nil {
		err = refusal(verdict, store.Limits{})
	}
	if err != nil {
		return translate(err)
	}
	s.wished(a, id, "deleted", workspace.DesiredDeleted)
	return nil
}

// Recover takes the error away from a workspace in ERROR; in other phases it does
// nothing. Only administrators may ([ErrForbidden]).
func (s *Service) Recover(ctx context.Context, a Actor, id workspace.ID) error {
	if !a.Admin {
		return ErrForbidden
	}
	if !seeable(a, id) {
		return ErrNotFound
	}
	if err := s.store.Recover(ctx, id); err != nil {
		return translate(err)
	}
	s.log.Info("workspace recovered", zap.String("workspace", string(id)), zap.String("user", a.UserID), zap.String("through", a.Kind))
	return nil
}

// Running returns the user's workspaces that count against the limits, the
// longest unused first: what could be put to sleep instead.
func (s *Service) Running(ctx context.Context, userID string) ([]workspace.Workspace, error) {
	if uuid.Validate(userID) != nil {
		return nil, nil
	}
	return s.store.Running(ctx, userID)
}

// Expire is the TTL runner's wish: RUNNING to STANDBY, or STANDBY to ARCHIVED.
// Whether the workspace is still in that phase, without an operation, wished to
// be there and unused for ttl is looked at again by the statement that writes;
// false means that it is not, and nothing has changed.
func (s *Service) Expire(ctx context.Context, id workspace.ID, from workspace.Phase, to workspace.DesiredState, ttl time.Duration) (bool, error) {
	var expire func(context.Context, workspace.ID, time.Duration) (bool, error)
	switch {
	case from == workspace.PhaseRunning && to == workspace.DesiredStandby:
		expire = s.store.ExpireRunning
	case from == workspace.PhaseStandby && to == workspace.DesiredArchived:
		expire = s.store.ExpireStandby
	default:
		return false, fmt.Errorf("nothing expires from %s to %s", from, to)
	}
	changed, err := expire(ctx, id, ttl)
	if changed {
		s.wished(Actor{Kind: "ttl"}, id, "expired", to)
	}
	return changed, err
}

func (s *Service) wished(a Actor, id workspace.ID, what string, d workspace.DesiredState) {
	s.log.Info("workspace "+what, zap.String("workspace", string(id)), zap.String("desired_state", string(d)),
		zap.String("user", a.UserID), zap.String("through", a.Kind))
}

// translate turns the store's "no row" into this package's.
func translate(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return ErrNotFound
	}
	return err
}
