// Package service changes the desired state of workspaces and everything else that users may
// change. It owns the rules about input, ownership, paging and limits. The API, the gateway's
// auto-wake, the TTL runner and the command line all call it. Nothing else may write
// desired_state or deleted_at (SPEC 1, contract 3).
//
// It must not touch containers, volumes or archives: the controller acts on the
// desired state. Ownership, an operation in progress and the limits are checked by
// the SQL statement that writes, so they hold under any number of concurrent calls.
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
	// InstanceBackend, "docker" or "kubernetes", and StorageBackend are written
	// into new workspaces. Both default to "docker".
	InstanceBackend, StorageBackend string
	// Limits apply from the start; SetLimits changes them. The zero value means no
	// limits.
	Limits Limits
	// Inventory tells what exists of a workspace's data. Without it, no recovery that
	// depends on it is possible.
	Inventory Inventory
	// Delays are those of the other components, for explanations; SetDelays changes them.
	Delays explain.Delays
	// Metrics counts the changes of desired states. Default: nothing does.
	Metrics *metrics.Service
	// Logger receives one line for every change of a desired state.
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
		store: st, instanceBackend: o.InstanceBackend, storageBackend: o.StorageBackend,
		inventory: o.Inventory, metrics: o.Metrics, log: o.Logger,
	}
	if s.instanceBackend == "" {
		s.instanceBackend = "docker"
	}
	if s.storageBackend == "" {
		s.storageBackend = "docker"
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.SetLimits(o.Limits)
	s.SetImages(launch.Catalog(nil).Default("", 0))
	s.SetDelays(o.Delays)
	s.SetMaxKeepAwake(DefaultMaxKeepAwake)
	return s
}

// Actor is the user, or the part of the system, that makes a change.
type Actor struct {
	// UserID sees and changes only the user's own workspaces.
	UserID string
	// Admin sees every workspace by its id, deleted ones included, and may recover
	// them.
	Admin bool
	// Through is the cause in the log, the history and the metrics. Empty means [audit.API].
	Through audit.Through
	// Input says that it is a person who opens the workspace, or works in its page.
	Input bool
	// Asked is how long ago the change was asked for, where it is tried until it is granted: what somebody has asked for since wins.
	// 0: now.
	Asked time.Duration

	cause audit.Through // of the metrics, where Through says too little
	// revisions are those of [Actor.If]; nil allows any. A pointer keeps actors comparable.
	revisions *[]int64
}

// If returns the actor for changes of a workspace that has one of the revisions; nil allows any. The statement that makes
// the change checks that. Every method that changes a workspace returns [ErrStale] otherwise.
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

// CheckRevision returns [ErrStale] for a workspace that the actor has read and that has none of the revisions. It comes
// before the other refusals; whether the change is made is for its statement to check.
func (a Actor) CheckRevision(w workspace.Workspace) error {
	if a.revisions != nil && !slices.Contains(*a.revisions, w.Revision) {
		return ErrStale
	}
	return nil
}

func (a Actor) through() audit.Through { return cmp.Or(a.Through, audit.API) }

// valid reports whether the ids are UUIDs. Anything else cannot exist, and would be
// an error of PostgreSQL.
func valid(a Actor, id workspace.ID) bool {
	if _, err := workspace.ParseID(string(id)); err != nil {
		return false
	}
	return a.Admin && a.UserID == "" || uuid.Validate(a.UserID) == nil
}

// CreateInput describes a new workspace.
type CreateInput struct {
	Name, Description, Memo string
	// ImageRef is the name of a configured image, empty for the default one, or from an
	// administrator any image's reference.
	ImageRef string
	// GitURL is the address of the repository that the image clones, empty for none. Only an image with
	// [launch.Image.Git] takes one.
	GitURL string
	// DesiredState is as in [Patch]; empty means RUNNING.
	DesiredState workspace.DesiredState
	// Key makes the same input of the same user create one workspace, however often it is sent;
	// empty for a new workspace each time.
	Key string
}

// keys is the name space of the ids that keys of users stand for.
var keys = uuid.MustParse("7d0bb4a2-54b5-4a5c-9e8b-3f1f6fbb1a54")

// id returns the id of the workspace that a user creates. A key always stands for the same one:
// the id itself remembers what was created with the key, for as long as the row is there.
func (in CreateInput) id(userID string) workspace.ID {
	if in.Key == "" {
		return workspace.ID(uuid.NewString())
	}
	return workspace.ID(uuid.NewSHA1(keys, []byte(userID+" "+in.Key)).String())
}

// Create adds a workspace of the actor, or returns the one that the actor has created with the
// same key. It returns [*InvalidError], [*ImageError], [*TooManyError], [*LimitError],
// [ErrDeleted] for one that was deleted since, and [ErrKeyTaken].
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
	// ImageRef is as in [CreateInput]. A container that runs keeps its image.
	ImageRef *string
	// Favourite puts it first on its owner's dashboard, or not.
	Favourite *bool
	// DesiredState may be ARCHIVED, STANDBY or RUNNING.
	DesiredState *workspace.DesiredState
}

// Update makes the whole change or none of it, and returns the workspace afterwards. With an
// image, also the one that it had, it tries again to start a workspace whose error another image
// can fix. With RUNNING, asked for by a person or a program, it tries again at once to pull an image that could not be
// pulled. It returns [*InvalidError], [*ImageError], [ErrStale] and the errors of
// [Service.SetDesired].
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
	// The gateway repeats its request for as long as somebody waits.
	if p.ImageRef != nil || p.DesiredState != nil && *p.DesiredState == workspace.DesiredRunning && a.Through != audit.Gateway {
		return s.retryImage(ctx, a, w)
	}
	return w, nil
}

// SetDesired changes the desired state to ARCHIVED, STANDBY or RUNNING. It returns
// [ErrNotFound]; [ErrOperationInProgress], unless the workspace has that desired
// state already; [ErrOvertaken]; and [*LimitError] for RUNNING.
func (s *Service) SetDesired(ctx context.Context, a Actor, id workspace.ID, d workspace.DesiredState) error {
	_, err := s.Update(ctx, a, id, Patch{DesiredState: &d})
	return err
}

// Running returns the user's workspaces that count against the limits, the longest
// unused first: the candidates for standby when a limit is reached.
func (s *Service) Running(ctx context.Context, userID string) ([]workspace.Workspace, error) {
	if uuid.Validate(userID) != nil {
		return nil, nil
	}
	return s.store.Running(ctx, userID)
}

// logChange logs who changed a desired state, and through what, and counts it.
func (s *Service) logChange(ctx context.Context, message string, a Actor, id workspace.ID, d workspace.DesiredState, more ...zap.Field) {
	s.metrics.Desired(d, cmp.Or(a.cause, a.through()))
	s.log.Info(message, slices.Concat([]zap.Field{zap.String(logkey.Workspace, string(id)), zap.String(logkey.DesiredState, string(d)),
		zap.String(logkey.By, a.UserID), zap.String(logkey.Through, string(a.through()))}, tracing.Fields(ctx), more)...)
}

// translate replaces the store's error for a missing row with this package's.
func translate(err error) error {
	switch {
	case errors.Is(err, postgres.ErrNotFound):
		return ErrNotFound
	case errors.Is(err, store.ErrStale):
		return ErrStale
	}
	return err
}
