// Package actuator carries out the actions of the planner, for one term as the leader. It owns the checks right before
// each action. This process must still lead, and the servers must be the recorded ones. Before a volume is deleted
// because there is an archive of it, that archive must exist (SPEC 12.3, 12.11). It must not read rows, save anything
// about a workspace except its address, or decide the consequences.
package actuator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
	"github.com/codehub/gateway/storagejob/contract"
)

// cleanupTimeout bounds an action that belongs to no operation.
const cleanupTimeout = time.Minute

// ErrHeldBack means that an action was not carried out, because this process may no longer be the leader, or because
// the server is not the recorded one. This is not a failure of the operation.
var ErrHeldBack = errors.New("held back")

// Store is the database as actuators use it.
type Store interface {
	// Holds reports whether the fence's epoch is still the newest.
	Holds(ctx context.Context, f postgres.Fence) (bool, error)
	// TakeAddress gives the workspace an address; see [store.Store.TakeAddress]. DropAddress takes back an address
	// that another container uses.
	TakeAddress(ctx context.Context, f postgres.Fence, id workspace.ID, p store.Pool, quarantine time.Duration) (
		slot int64, err error)
	DropAddress(ctx context.Context, f postgres.Fence, id workspace.ID, pool string, slot int64) error
}

// Archives is the object store as actuators use it.
type Archives interface {
	// Stat returns an error that is fs.ErrNotExist if the archive or its commit marker
	// does not exist. Any other error means that it is not known.
	Stat(ctx context.Context, key string) (archive.Info, error)
	// CreateEmpty stores an archive without files. It does nothing if the archive
	// exists.
	CreateEmpty(ctx context.Context, key string) error
	// JobEnv returns the environment with which a storage job finds the archive. Grant returns the grant of the job: a
	// secret that lets it access the archive for the time lifetime. Grant may be called for a job that already runs.
	JobEnv(key string) []string
	Grant(ctx context.Context, kind workspace.JobKind, key string, lifetime time.Duration) (contract.Grant, error)
}

// Actuator carries out actions. All fields are required except Addresses, Images and Freezer. It is safe for concurrent
// use.
type Actuator struct {
	Store    Store
	Backend  backend.Actuators
	Archives Archives
	Identity observation.Identity
	// Launch returns how a workspace's container is started under the current settings.
	Launch func(workspace.Workspace) (backend.StartSpec, error)
	// Addresses, Images and Freezer are the fields of that name in backend.Backend. They are nil if the backend does
	// not have them.
	Addresses func(context.Context) (backend.Pool, error)
	Images    backend.Images
	Freezer   backend.Freezer
	// Pull begins to pull an image that will be needed.
	Pull func(image string)
	// Quarantine is how long an address rests before another workspace gets it.
	Quarantine func() time.Duration
	// Policy has the limits of operations.
	Policy func() planner.Policy
	Tracer *tracing.Tracer
	Log    *zap.Logger

	// Fence is the condition of every write of the term, and Label names the term in the objects that it starts. Lease
	// reports whether the leadership is certain without asking the database.
	Fence postgres.Fence
	Label string
	Lease func() bool
}

// Call is one action. Row is the row that was saved before it.
type Call struct {
	Action planner.Action
	Row    workspace.Workspace
	// VolumeOpID is the incarnation of the volume that the action deletes (SPEC 12.11).
	VolumeOpID string
}

// Execute carries out an action. Its success does not complete an operation: only the following observation does (SPEC
// 1, contract 1).
func (a *Actuator) Execute(ctx context.Context, c Call) (err error) {
	ctx, span := a.Tracer.Within(ctx, tracing.Action+string(c.Action))
	defer func() { tracing.End(span, err) }()
	w, policy := c.Row, a.Policy()
	op, limit := w.Operation, cleanupTimeout
	if c.VolumeOpID != "" && op == workspace.OpNone {
		op = workspace.OpDeleting // it takes as long as there are files
	}
	if d, ok := policy.Timeouts[op]; ok {
		limit = d
	}
	ctx, cancel := context.WithTimeout(backend.WithLease(ctx, a.Lease), limit)
	defer cancel()
	if err := a.checkServers(ctx, c); err != nil {
		return err
	}
	// The servers may have taken long to answer.
	if err := a.checkLeadership(ctx, c.Action); err != nil {
		return err
	}
	a.Log.Debug("carrying out an action", append(tracing.Fields(ctx), zap.String(logkey.Workspace, string(w.ID)), zap.String(logkey.Action, string(c.Action)))...)
	switch c.Action {
	case planner.ActProvision:
		return a.Backend.Provision(ctx, backend.VolumeSpec{ID: w.ID, OpID: w.HomeCtx.VolumeOpID, Owner: w.OwnerID})
	case planner.ActStart:
		return a.start(ctx, w)
	case planner.ActDeleteContainer:
		return a.Backend.Delete(ctx, w.ID)
	case planner.ActStartArchive:
		return a.startJob(ctx, w, workspace.JobArchive, w.ArchiveOpID, w.ID.ArchiveKey(w.ArchiveOpID))
	case planner.ActStartRestore:
		err := a.startJob(ctx, w, workspace.JobRestore, w.HomeCtx.RestoreOpID, w.ArchiveKey)
		if err == nil && w.DesiredState == workspace.DesiredRunning {
			a.prefetch(ctx, w)
		}
		return err
	case planner.ActCreateEmptyArchive:
		err := a.Archives.CreateEmpty(ctx, w.ID.ArchiveKey(w.ArchiveOpID))
		if err != nil {
			return &workspace.StoreError{State: observation.StateOf(err), Err: err}
		}
		return nil
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume, planner.ActDeleteVolume:
		return a.deleteVolume(ctx, c)
	case planner.ActDeleteJobs:
		return a.Backend.DeleteJobs(ctx, w.ID)
	case planner.ActFreeze, planner.ActThaw:
		return a.freeze(ctx, c)
	}
	return fmt.Errorf("unknown action %q", c.Action)
}

// checkServers returns an error unless the servers that the action touches are the
// recorded ones. Before a volume is deleted because there is an archive of it, the archive is looked up once more (SPEC
// 12.3).
func (a *Actuator) checkServers(ctx context.Context, c Call) error {
	if c.Action != planner.ActCreateEmptyArchive {
		if err := a.Identity.Backend(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrHeldBack, err)
		}
	}
	switch c.Action {
	case planner.ActDropArchivedVolume, planner.ActDropStaleVolume:
		if _, err := a.Archives.Stat(ctx, c.Row.ArchiveKey); err != nil {
			err = fmt.Errorf("checking the archive before deleting a volume: %w", err)
			if errors.Is(err, fs.ErrNotExist) || workspace.ReasonOf(err) == workspace.ReasonArchiveCorrupted {
				return err
			}
			return &workspace.StoreError{State: observation.StateOf(err), Err: err}
		}
	case planner.ActStartArchive, planner.ActStartRestore, planner.ActCreateEmptyArchive:
	default:
		return nil
	}
	if err := a.Identity.Bucket(ctx); err != nil {
		return &workspace.StoreError{State: observation.StateOf(err), Err: err}
	}
	return nil
}

// checkLeadership returns an error unless this process leads. Before a destructive action it asks the database, and
// then checks that the lease has not expired in the meantime. The lease is also checked before other actions, because a
// container that a former leader starts might run although its workspace should sleep.
func (a *Actuator) checkLeadership(ctx context.Context, before planner.Action) error {
	if before.Destructive() {
		held, err := a.Store.Holds(ctx, a.Fence)
		if err != nil {
			return fmt.Errorf("%w: checking the leadership before %s: %w", ErrHeldBack, before, err)
		}
		if !held {
			return fmt.Errorf("%w: another process is the leader now", ErrHeldBack)
		}
	}
	if err := backend.CheckLease(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrHeldBack, err)
	}
	return nil
}

// start runs the workspace's container.
func (a *Actuator) start(ctx context.Context, w workspace.Workspace) error {
	spec, err := a.Launch(w)
	if err != nil {
		return err
	}
	spec.Term = a.Label
	return a.withAddress(ctx, w.ID, func(slot int64) error {
		spec.Slot = slot
		return a.Backend.Start(ctx, spec)
	})
}

// freeze freezes or thaws the workspace's container.
func (a *Actuator) freeze(ctx context.Context, c Call) error {
	switch {
	case a.Freezer == nil: // the frozen container is on another backend
		return fmt.Errorf("%s: this backend freezes no containers", c.Action)
	case c.Action == planner.ActFreeze:
		return a.Freezer.Freeze(ctx, c.Row.ID, c.Row.HomeCtx.Dozed)
	}
	return a.Freezer.Thaw(ctx, c.Row.ID)
}

// startJob starts a storage job that is named after opID and moves the archive at key. The job's access to the store
// expires with the operation's time limit.
func (a *Actuator) startJob(ctx context.Context, w workspace.Workspace, kind workspace.JobKind, opID,
	key string) error {
	env := a.Archives.JobEnv(key)
	if known := w.KnownState(); kind == workspace.JobArchive && known != "" {
		env = append(env, contract.EnvFingerprint+"="+known)
	}
	operation := w.HomeCtx.VolumeOpID
	if kind == workspace.JobRestore {
		// Each attempt has a volume of its own. If the row is older than reality, an earlier restore may have filled
		// the volume, and it may have been used since.
		operation = opID
		env = append(env, contract.EnvNewVolume+"=true")
	}
	about, err := json.Marshal(contract.About{Workspace: string(w.ID), Operation: string(w.Operation), OpID: opID,
		Request: tracing.Request(ctx), Trace: tracing.ID(ctx)})
	if err != nil {
		return fmt.Errorf("writing for what the storage job is: %w", err)
	}
	env = append(env, contract.EnvOperation+"="+operation, contract.EnvAbout+"="+string(about))
	granted, err := a.Archives.Grant(ctx, kind, key, planner.OperationLimit)
	if err != nil {
		return &workspace.StoreError{State: observation.StateOf(err), Err: err}
	}
	text, err := json.Marshal(granted)
	if err != nil {
		return fmt.Errorf("writing the storage job's grant: %w", err)
	}
	// Making the grant may have taken as long as the object store took to answer, so the lease is checked again.
	if err := backend.CheckLease(ctx); err != nil {
		return fmt.Errorf("%w: %w", ErrHeldBack, err)
	}
	return a.Backend.StartJob(ctx, backend.JobSpec{
		ID: w.ID, Kind: kind, OpID: opID, Owner: w.OwnerID, Term: a.Label, Env: env, Grant: text,
	})
}

// prefetch pulls the image of a workspace, if it is missing, while its files are restored. Nothing waits for the pull
// here. If it fails, the start of the workspace notices and reports that.
func (a *Actuator) prefetch(ctx context.Context, w workspace.Workspace) {
	if a.Images == nil {
		return
	}
	spec, err := a.Launch(w)
	if err != nil {
		return
	}
	var missing *backend.MissingImageError
	if errors.As(a.Images.Check(ctx, spec.Image), &missing) {
		a.Pull(missing.Image)
	}
}

// deleteVolume removes the workspace's jobs before the volume, because a container uses its volume even after it has
// exited.
func (a *Actuator) deleteVolume(ctx context.Context, c Call) error {
	if err := a.Backend.DeleteJobs(ctx, c.Row.ID); err != nil {
		return err
	}
	if err := a.checkLeadership(ctx, c.Action); err != nil {
		return err
	}
	return a.Backend.DeleteVolume(ctx, c.Row.ID, c.VolumeOpID)
}
