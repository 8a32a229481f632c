// Package workspace owns what a workspace is, what can be observed of it, and how its phase follows from that (SPEC
// 2). All other packages share these types. Package planner decides the next operation. This package must not perform
// I/O, read the clock or import anything but the standard library.
package workspace

import (
	"errors"
	"fmt"
	"time"
)

// ID is a workspace's identity: a UUID in its canonical lower-case text form.
// Container, volume and archive names are derived from it, so never convert a
// string to an ID that did not pass [ParseID].
type ID string

// ErrInvalidID is returned by [ParseID].
var ErrInvalidID = errors.New("not a workspace id: want a lower-case UUID")

// ParseID validates s. Only the canonical lower-case form is accepted, so that
// one workspace has one name in URLs, caches and resource names. It is called for
// every request and does not allocate.
func ParseID(s string) (ID, error) {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) != len(form) {
		return "", ErrInvalidID
	}
	for i := range len(s) {
		isHex := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if form[i] == '-' && s[i] != '-' || form[i] == 'x' && !isHex {
			return "", ErrInvalidID
		}
	}
	return ID(s), nil
}

// ContainerName is the name of the workspace's container (SPEC 1, contract 6).
func (id ID) ContainerName() string { return "ws-" + string(id) }

// Home is where people's files are in every workspace: the home volume is mounted there.
const Home = "/home/coder"

// VolumeName is the name of the workspace's home volume (SPEC 1, contract 6).
func (id ID) VolumeName() string { return "ws-" + string(id) + "-home" }

// ArchiveKey is the object key, below the bucket's prefix, of the archive that the
// operation opID makes (SPEC 1, contract 7). The same pair always gives the same key.
func (id ID) ArchiveKey(opID string) string {
	return fmt.Sprintf("%s/%s/home.tar.zst", id, opID)
}

// Shard returns the number of the workspace's shard, from 0 to shards-1: the last 16 bits of the id modulo shards
// (SPEC 5). The generated column slot of the schema has the same bits.
func (id ID) Shard(shards int) int {
	slot := 0
	for _, c := range []byte(id[max(0, len(id)-4):]) {
		digit := int(c - '0')
		if c >= 'a' {
			digit = int(c-'a') + 10
		}
		slot = slot<<4 | digit
	}
	return slot % max(shards, 1)
}

// Workspace is one row of the database: the desired state and the last
// observation. SPEC 4 says which component writes which field. Empty strings and
// zero times stand for NULL.
type Workspace struct {
	ID ID
	// OwnerID is the user's id, a UUID.
	OwnerID     string `db:"owner_user_id"`
	Name        string
	Description string
	Memo        string
	// ImageRef is the image to run; empty means the backend's default.
	ImageRef string
	// GitURL is the address of the repository that the image clones into an empty project; empty means
	// none. It never changes.
	GitURL string `db:"git_url"`
	// InstanceBackend and StorageBackend name the backends that the workspace was
	// created for, such as "docker".
	InstanceBackend string
	StorageBackend  string
	HomeCtx         HomeContext

	Conditions Conditions
	// ObservedAt is the time of the last observation that changed the row.
	ObservedAt     time.Time
	Phase          Phase
	PhaseChangedAt time.Time
	// Operation is in progress since OpStartedAt; OpNone when there is none.
	Operation   Operation
	OpStartedAt time.Time
	// ArchiveOpID is the id of the last archive operation, ArchiveKey the key of the
	// archive that holds the workspace's data. A restore reads ArchiveKey only.
	ArchiveOpID string
	ArchiveKey  string
	// Endpoint is the host:port of the container; empty unless it is ready.
	Endpoint string
	// BasePath is the path prefix under which the application behind Endpoint serves, such as "/w/{id}"; empty when it
	// serves at "/".
	BasePath string
	// ErrorReason and ErrorMessage describe the last failure, ErrorCount counts the
	// failures of the operation in a row (SPEC 3).
	ErrorReason  ErrorReason
	ErrorMessage string
	ErrorCount   int

	DesiredState DesiredState
	// LastAccessAt is when the workspace was last used, up to a minute late (SPEC 6).
	LastAccessAt time.Time
	// KeepAwakeUntil is the time until which its owner wants it to stay awake even if it is not in use.
	KeepAwakeUntil time.Time
	// Favourite reports that it comes first on its owner's dashboard.
	Favourite bool
	// Busy is why it stays awake although it is not in use; nil while nothing is known.
	Busy *Busy
	// SleepAt is when it will be put to sleep unless it is used; zero while that is not near.
	SleepAt time.Time
	// DozeAt is the time since which the container should be frozen because it is idle; zero while it should run.
	DozeAt time.Time
	// PageActivity is how its pages tell people from automated requests; empty before the first page.
	PageActivity PageActivity
	CreatedAt    time.Time
	UpdatedAt    time.Time
	// DeletedAt is when the owner deleted the workspace. DeleteNow reports that an administrator has given up the data
	// that would otherwise be kept for the delay of the deletion.
	DeletedAt time.Time
	DeleteNow bool
	// CollectedAt is when the garbage collector began to delete the archives of the
	// deleted workspace. From then on the deletion cannot be undone.
	CollectedAt time.Time

	// Progress is how far the storage job of the operation in progress is; nil while there
	// is none, or nothing is known.
	Progress *JobProgress
	// Home is the size of the home when it was last measured.
	Home HomeSize `db:"-"`
	// ArchiveDamage says what is wrong with the archive at ArchiveKey; empty when no damage is known.
	ArchiveDamage string
	// ArchiveSuspected reports that something was wrong with that archive when it was last read, and that it has not
	// been read again since.
	ArchiveSuspected bool
	// ArchiveVerifiedAt is when that archive was last read as a whole and found intact; zero if it never was, or if
	// that is not known.
	ArchiveVerifiedAt time.Time

	// Waiting is what the workspace waits for; nil while it waits for nothing.
	Waiting *Waiting
	// AwaitsGC reports that the workspace is deleted and nothing but its archive is left.
	AwaitsGC bool
	// Recovery is the choice made at the last recovery, nil if there was none.
	Recovery *Recovery
	// Origin is the request for which the workspace is being changed; nil if there is none.
	Origin *Origin
	// Revert is the last request to go back to an older archive, nil if there was none.
	Revert *Revert
	// Revision grows with every change that a gateway or a browser needs to know.
	Revision int64
	// Unreadable says why some columns of the row could not be read; their fields are zero. It is nil when all could be
	// read. Nothing may be decided or written from such a row (SPEC 5, Failures).
	Unreadable error `db:"-"`
}

// MarkUnreadable sets Unreadable, and explains in Waiting why nothing happens with the workspace.
func (w *Workspace) MarkUnreadable(err error) {
	w.Unreadable = err
	w.Waiting = InternalError(err, w.UpdatedAt)
}

// Dozes reports whether the workspace dozes: its container is frozen and should stay so. A workspace with DozeAt is not
// necessarily frozen: that may not have happened yet, or its engine cannot freeze it.
func (w Workspace) Dozes() bool {
	return w.Phase == PhaseRunning && !w.DozeAt.IsZero() && w.Conditions.True(Dozing)
}

// Deleted reports whether the workspace's owner has deleted it.
func (w Workspace) Deleted() bool { return !w.DeletedAt.IsZero() }

// JobOpID returns the id of the storage job of the operation in progress; it is empty for an operation without a job.
func (w Workspace) JobOpID() string {
	switch w.Operation {
	case OpArchiving:
		return w.ArchiveOpID
	case OpRestoring:
		return w.HomeCtx.RestoreOpID
	}
	return ""
}
