// Package gc deletes archives that no workspace needs any more (SPEC 7). Nothing else deletes archives.
//
// When in doubt it keeps an archive. It ignores objects that it does not recognise. It reports archives that the
// database does not know, and archives that are newer than the database says. A failed query ends the cycle. An archive
// is deleted only after it has been an orphan for hours, and every cycle during these hours has found it to be one.
// Reported archives are deleted only on a person's command.
//
// It owns the decision to delete an archive and the record of when each archive became an orphan. It writes only two
// facts to the database: that a deleted workspace is collected, and which archives exist. It must delete nothing but
// archives, their commit markers and the parts of unfinished uploads.
package gc

import (
	"context"
	"errors"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Settings].
const (
	DefaultInterval     = 4 * time.Hour
	DefaultDelay        = 2 * time.Hour
	DefaultUndeleteFor  = 7 * 24 * time.Hour
	DefaultUploadExpiry = 24 * time.Hour
	DefaultKeep         = 1
)

// MaxKeep is the largest [Settings].Keep.
const MaxKeep = 1000

// Archives is the object store as the collector uses it. *archive.Store implements
// it.
type Archives interface {
	// List calls page with all objects, page by page, in ascending order of their keys.
	List(ctx context.Context, page func([]archive.Object) error) error
	// Delete removes objects; those in failed may still exist.
	Delete(ctx context.Context, keys []string) (failed map[string]error, err error)
	// Stat describes a complete archive; if there is none, the error is fs.ErrNotExist.
	Stat(ctx context.Context, key string) (archive.Info, error)
	// ListUploads calls page with the unfinished uploads; AbortUpload removes one.
	ListUploads(ctx context.Context, page func([]archive.Upload) error) error
	AbortUpload(ctx context.Context, u archive.Upload) error
}

// Identity checks whether the bucket is the right one. *identity.Guard implements it.
type Identity interface {
	Bucket(ctx context.Context) error
}

// Store is the database as the collector uses it. *store.Store implements it.
type Store interface {
	// Protection returns for each of these workspaces what protects its archives. Workspaces without a row are not in
	// the map.
	Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error)
	// CountWorkspaces counts all rows, deleted ones too.
	CountWorkspaces(ctx context.Context) (int64, error)
	// MarkCollected marks deleted workspaces as collected, which makes their deletion final, and returns those that are
	// marked now. It skips workspaces that were deleted less than window ago. It marks none if f's epoch is no longer
	// the newest.
	MarkCollected(ctx context.Context, f postgres.Fence, ids []workspace.ID, window time.Duration) (marked []workspace.ID, err error)
	// AddArchives adds archives of the bucket that are missing from the table of archives. RemoveArchives removes the
	// rows of archives that are about to be deleted.
	AddArchives(ctx context.Context, found []store.Archive) error
	RemoveArchives(ctx context.Context, keys []string) error
	// Holds reports whether the epoch of a leader's term is still the newest.
	Holds(ctx context.Context, f postgres.Fence) (bool, error)
	// TryExclusive lets one process of the installation collect at a time.
	TryExclusive(ctx context.Context, name, holder string) (*postgres.Exclusive, error)
}

// Settings can be changed while the collector runs.
type Settings struct {
	// Interval is the time between cycles (COORDINATOR_GC_INTERVAL). Default [DefaultInterval].
	Interval time.Duration
	// Delay is how long an archive must have been an orphan before it is deleted (COORDINATOR_GC_DELAY).
	// Default [DefaultDelay].
	Delay time.Duration
	// UndeleteFor is how long the archives of a deleted workspace are kept, counted from its deletion
	// (COORDINATOR_UNDELETE_FOR). Superseded ones are still deleted after Delay. Default [DefaultUndeleteFor].
	UndeleteFor time.Duration
	// UploadExpiry is how old an unfinished upload of an archive must be to be aborted. It must be longer than
	// archiving ever takes. Default [DefaultUploadExpiry].
	UploadExpiry time.Duration
	// Keep is how many archives of each workspace are kept, from 1 to [MaxKeep] (keep_archives). These are the most
	// recent ones, including the current one. When it is lowered, the surplus is deleted after the usual Delay. Default
	// [DefaultKeep].
	Keep int
}

// DefaultSettings returns the defaults of SPEC 5 and 7.
func DefaultSettings() Settings {
	return Settings{
		Interval: DefaultInterval, Delay: DefaultDelay, UndeleteFor: DefaultUndeleteFor, UploadExpiry: DefaultUploadExpiry,
		Keep: DefaultKeep,
	}
}

// KeepDeleted returns how long the deletion of a workspace can certainly be undone: for UndeleteFor, or for Delay if
// that is longer. No archive is deleted before that.
func (s Settings) KeepDeleted() time.Duration { return max(s.UndeleteFor, s.Delay) }

// Validate returns everything that is wrong with the settings, under the names of the options.
func (s Settings) Validate() error {
	var errs []error
	if s.Interval <= 0 {
		errs = append(errs, setting.Errorf("coordinator gc_interval", "%s; give a duration above zero, such as 4h", s.Interval))
	}
	if s.Delay <= 0 {
		errs = append(errs, setting.Errorf("coordinator gc_delay", "%s; give a duration above zero, such as 2h", s.Delay))
	}
	if s.UndeleteFor <= 0 {
		errs = append(errs, setting.Errorf("coordinator undelete_for", "%s; give a duration above zero, such as 7d", s.UndeleteFor))
	}
	if s.Keep < 1 || s.Keep > MaxKeep {
		errs = append(errs, setting.Errorf("coordinator keep_archives", "%d; give a number from 1 to %d: that many archives of each "+
			"workspace are kept", s.Keep, MaxKeep))
	}
	return errors.Join(errs...)
}

// orDefault replaces each value that is out of range with its default.
func (s Settings) orDefault() Settings {
	if s.Interval <= 0 {
		s.Interval = DefaultInterval
	}
	if s.Delay <= 0 {
		s.Delay = DefaultDelay
	}
	if s.UndeleteFor <= 0 {
		s.UndeleteFor = DefaultUndeleteFor
	}
	if s.UploadExpiry <= 0 {
		s.UploadExpiry = DefaultUploadExpiry
	}
	if s.Keep < 1 || s.Keep > MaxKeep {
		s.Keep = DefaultKeep
	}
	return s
}

// Options configure a [Runner], a [DryRun] or a [Collect].
type Options struct {
	// Archives is the object store, Store the database. Both are required.
	Archives Archives
	Store    Store
	// Identity is required, except for a dry run.
	Identity Identity
	// Orphans remembers when each archive became an orphan. Only a dry run can do without it.
	Orphans *OrphanTracker
	// Holder names this process to others that want to collect at the same time.
	Holder string
	// Settings apply until [Runner.Set] changes them; zero fields take the defaults.
	Settings Settings
	// OnCollected, if set, is called with the workspaces whose archives were deleted, so that the controller observes
	// them again.
	OnCollected func(ids []workspace.ID)
	// Metrics and Cycles count the work of the leader's cycles. Default: nothing is counted.
	Metrics *metrics.Archives
	Cycles  *metrics.Cycles
}
