// Package service changes the desired state of workspaces and everything else that users may change. It owns the rules
// about input, ownership, paging and limits. The API, the gateway's auto-wake, the TTL runner and the command line all
// call it. Nothing else may write desired_state or deleted_at (SPEC 1, contract 3).
//
// It must not touch containers, volumes or archives: the controller acts on the desired state. The SQL statement that
// writes checks ownership, the operation in progress and the limits, so they hold under concurrent calls.
package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Options configure a [Service].
type Options struct {
	// InstanceBackend and StorageBackend, "docker" or "kubernetes", are written into new workspaces. Both default to
	// "docker".
	InstanceBackend, StorageBackend string
	// Limits are the initial limits; SetLimits changes them. The zero value means no limits.
	Limits Limits
	// Inventory finds the data of a workspace. Without it, recoveries that depend on the data are refused.
	Inventory Inventory
	// Delays are the other components' delays, for explanations; SetDelays changes them.
	Delays explain.Delays
	// Metrics counts changes of desired states. Default: none.
	Metrics *metrics.Service
	// Logger gets a line for every change of a desired state.
	Logger *zap.Logger
}

// Service changes the desired state of workspaces. It is safe for concurrent use.
type Service struct {
	store                           *store.Store
	instanceBackend, storageBackend string
	limits                          atomic.Pointer[Limits]
	images                          atomic.Pointer[launch.Catalog]
	delays                          atomic.Pointer[explain.Delays]
	maxKeepAwake                    atomic.Int64 // nanoseconds
	inventory                       Inventory
	metrics                         *metrics.Service
	log                             *zap.Logger
}

// New returns a Service over st.
func New(st *store.Store, o Options) *Service {
	s := &Service{
		store: st, instanceBackend: cmp.Or(o.InstanceBackend, "docker"), storageBackend: cmp.Or(o.StorageBackend, "docker"),
		inventory: o.Inventory, metrics: o.Metrics, log: cmp.Or(o.Logger, zap.NewNop()),
	}
	s.SetLimits(o.Limits)
	s.SetImages(launch.Catalog(nil).Default("", 0))
	s.SetDelays(o.Delays)
	s.SetMaxKeepAwake(DefaultMaxKeepAwake)
	return s
}

// Actor is the user, or the part of the system, that makes a change.
type Actor struct {
	// UserID is the id of the user. Without Admin, users see and change only their own workspaces.
	UserID string
	// Admin lets the actor see every workspace by its id, including deleted ones, and recover it.
	Admin bool
	// Through is how the change was requested; it is the cause in the log, the history and the metrics. Empty means
	// [audit.API].
	Through audit.Through
	// Input says that a person opens the workspace or works in its page.
	Input bool
	// Asked is how long ago the change was asked for, if it is retried until it is granted. A later request from
	// another user wins. 0 means now.
	Asked time.Duration

	cause audit.Through // of the metrics, where Through says too little
	// revisions are those of [Actor.If]; nil allows any. A pointer keeps actors comparable.
	revisions *[]int64
}

// If returns an actor that may change a workspace only if it has one of these revisions; nil allows any revision. The
// statement that makes the change checks the revision. Every method that changes a workspace returns [ErrStale]
// otherwise.
func (a Actor) If(revisions []int64) Actor {
	a.revisions = nil
	if revisions != nil {
		a.revisions = &revisions
	}
	return a
}

func (a Actor) viewer() store.Viewer {
	v := store.Viewer{UserID: a.UserID, All: a.Admin, Through: a.through()}
	if a.revisions != nil {
		v.IfRevision = *a.revisions
	}
	return v
}

// CheckRevision returns [ErrStale] if w, as it was read, has none of the actor's revisions. Callers check this before
// other reasons to refuse the change. The statement that makes the change checks the revision again.
func (a Actor) CheckRevision(w workspace.Workspace) error {
	if a.revisions != nil && !slices.Contains(*a.revisions, w.Revision) {
		return ErrStale
	}
	return nil
}

func (a Actor) through() audit.Through { return cmp.Or(a.Through, audit.API) }

// valid reports whether the ids are UUIDs. Other ids cannot exist, and would be an error of PostgreSQL.
func valid(a Actor, id workspace.ID) bool {
	if _, err := workspace.ParseID(string(id)); err != nil {
		return false
	}
	return a.Admin && a.UserID == "" || uuid.Validate(a.UserID) == nil
}

// CreateInput describes a new workspace.
type CreateInput struct {
	Name, Description, Memo string
	// ImageRef is the name of a configured image, or from an administrator any image's reference. Empty means the
	// default image.
	ImageRef string
	// GitURL is the address of the repository that the image clones, empty for none. The image must have
	// [launch.Image.Git].
	GitURL string
	// DesiredState is as in [Patch]; empty means RUNNING.
	DesiredState workspace.DesiredState
	// Key identifies the input: calls by the same user with the same key create only one workspace. With an empty key,
	// each call creates a new one.
	Key string
}

// keys is the namespace of the ids that are derived from users' keys.
var keys = uuid.MustParse("7d0bb4a2-54b5-4a5c-9e8b-3f1f6fbb1a54")

// id returns the id of the new workspace. It is derived from the key, so the row itself remembers what the key has
// created.
func (in CreateInput) id(userID string) workspace.ID {
	if in.Key == "" {
		return workspace.ID(uuid.NewString())
	}
	return workspace.ID(uuid.NewSHA1(keys, []byte(userID+" "+in.Key)).String())
}

// Create adds a workspace of the actor, or returns the one that the actor created with the same key. It returns
// [*InvalidError], [*ImageError], [*TooManyError], [*LimitError], [ErrDeleted] if that workspace was deleted since, and
// [ErrKeyTaken].
func (s *Service) Create(ctx context.Context, a Actor, in CreateInput) (workspace.Workspace, error) {
	in, err := in.clean(s.Images(), a)
	if err != nil {
		return workspace.Workspace{}, err
	}
	if uuid.Validate(a.UserID) != nil {
		return workspace.Workspace{}, ErrForbidden
	}
	id := in.id(a.UserID)
	w, outcome, err := s.store.Create(ctx, workspace.Workspace{
		ID: id, OwnerID: a.UserID, Name: in.Name, Description: in.Description, Memo: in.Memo, ImageRef: in.ImageRef, GitURL: in.GitURL,
		DesiredState: in.DesiredState, InstanceBackend: s.instanceBackend, StorageBackend: s.storageBackend,
	}, a.through(), s.storeLimits())
	if err == nil {
		err = s.refusal(ctx, outcome, a.UserID, id)
	}
	if err != nil {
		return workspace.Workspace{}, err
	}
	switch {
	case outcome == store.Changed:
		s.logChange(ctx, "workspace created", a, id, in.DesiredState)
	case !w.DeletedAt.IsZero():
		return workspace.Workspace{}, ErrDeleted
	}
	return w, nil
}

// Get returns a workspace that the actor may see, or [ErrNotFound].
func (s *Service) Get(ctx context.Context, a Actor, id workspace.ID) (workspace.Workspace, error) {
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	w, err := s.store.Get(ctx, a.viewer(), id)
	return w, translate(err)
}

// Patch is a change of a workspace; nil fields keep their values.
type Patch struct {
	// Name, Description and Memo are validated as in [Service.Create].
	Name, Description, Memo *string
	// ImageRef is as in [CreateInput]. A running container keeps its image.
	ImageRef *string
	// Favourite puts the workspace first on its owner's dashboard.
	Favourite *bool
	// DesiredState may be ARCHIVED, STANDBY or RUNNING.
	DesiredState *workspace.DesiredState
}

// Update makes the whole change or none of it, and returns the workspace afterwards. If the patch names an image, even
// the same one, and another image can fix the workspace's error, Update retries the start. If a person or a program
// requests RUNNING, Update immediately retries a failed pull of the image. It returns [*InvalidError], [*ImageError],
// [ErrStale] and the errors of [Service.SetDesired].
func (s *Service) Update(ctx context.Context, a Actor, id workspace.ID, p Patch) (workspace.Workspace, error) {
	p, err := p.clean(s.Images(), a)
	if err != nil {
		return workspace.Workspace{}, err
	}
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	edit := store.Edit{
		Name: p.Name, Description: p.Description, Memo: p.Memo, ImageRef: p.ImageRef, Favourite: p.Favourite,
		Desired: p.DesiredState,
		Input:   a.Input,
		Asked:   a.Asked,
	}
	w, outcome, err := s.store.Update(ctx, a.viewer(), id, edit, s.storeLimits())
	if err == nil {
		err = s.refusal(ctx, outcome, a.UserID, id)
	}
	if err != nil {
		return workspace.Workspace{}, translate(err)
	}
	if outcome == store.Changed {
		s.logChange(ctx, "workspace desired state changed", a, id, *p.DesiredState)
	}
	a = a.If(nil) // the rest belongs to the same change
	if p.ImageRef != nil && w.Phase == workspace.PhaseError && ofImage[w.ErrorReason] {
		if recovered, changed, err := s.recover(ctx, a, w, Choice{}); changed || err != nil {
			return recovered, err
		}
	}
	// The gateway repeats its request while a client waits.
	if p.ImageRef != nil || p.DesiredState != nil && *p.DesiredState == workspace.DesiredRunning && a.Through != audit.Gateway {
		return s.retryImage(ctx, a, w)
	}
	return w, nil
}

// SetDesired changes the desired state to ARCHIVED, STANDBY or RUNNING. It returns [ErrNotFound];
// [ErrOperationInProgress], unless the workspace already has that desired state; [ErrOvertaken]; and [*LimitError] for
// RUNNING.
func (s *Service) SetDesired(ctx context.Context, a Actor, id workspace.ID, d workspace.DesiredState) error {
	_, err := s.Update(ctx, a, id, Patch{DesiredState: &d})
	return err
}

// Running returns the user's workspaces that count against the limits, the longest unused first. When a limit is
// reached, the user can put one of them to sleep.
func (s *Service) Running(ctx context.Context, userID string) ([]workspace.Workspace, error) {
	if uuid.Validate(userID) != nil {
		return nil, nil
	}
	return s.store.Running(ctx, userID)
}

// logChange logs and counts a change of a desired state.
func (s *Service) logChange(ctx context.Context, message string, a Actor, id workspace.ID, d workspace.DesiredState, more ...zap.Field) {
	s.metrics.Desired(d, cmp.Or(a.cause, a.through()))
	s.log.Info(message, slices.Concat([]zap.Field{zap.String(logkey.Workspace, string(id)), zap.String(logkey.DesiredState, string(d)),
		zap.String(logkey.By, a.UserID), zap.String(logkey.Through, string(a.through()))}, tracing.Fields(ctx), more)...)
}

// translate replaces errors of the store with those of this package.
func translate(err error) error {
	switch {
	case errors.Is(err, postgres.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, store.ErrStale):
		return ErrStale
	}
	return err
}
