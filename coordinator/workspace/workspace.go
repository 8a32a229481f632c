// Package workspace is the pure core of the system: what a workspace is, what
// can be observed of it, how its phase is judged, and what is done next. It
// performs no I/O and depends on the standard library only, so that every rule
// that protects a user's files can be tested as a table of values.
package workspace

import (
	"errors"
	"fmt"
	"regexp"
	"time"
)

// ID is a workspace's identity: a UUID in its canonical lower-case text form.
// Container, volume and archive names are derived from it, so a value that did
// not pass [ParseID] must never become one.
type ID string

var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// ErrInvalidID says that a text is not a workspace id.
var ErrInvalidID = errors.New("not a workspace id: want a lower-case UUID")

// ParseID validates s. Only the canonical lower-case form is accepted, so that
// one workspace has one name in URLs, caches and resource names.
func ParseID(s string) (ID, error) {
	if len(s) != 36 || !idForm.MatchString(s) {
		return "", ErrInvalidID
	}
	return ID(s), nil
}

// ContainerName is the name of the workspace's container (SPEC 1, contract 6).
func (id ID) ContainerName() string { return "ws-" + string(id) }

// VolumeName is the name of the workspace's home volume (SPEC 1, contract 6).
func (id ID) VolumeName() string { return "ws-" + string(id) + "-home" }

// ArchiveKey is where the archive made under opID is stored, below the bucket's
// prefix (SPEC 1, contract 7). The same pair is always the same key.
func (id ID) ArchiveKey(opID string) string {
	return fmt.Sprintf("%s/%s/home.tar.zst", id, opID)
}

// Workspace is one row: what is wished for, and what was last observed.
// Section 4 of the specification says who writes which field. Empty strings and
// zero times stand for NULL.
type Workspace struct {
	ID              ID
	OwnerID         string
	Name            string
	Description     string
	Memo            string
	ImageRef        string
	InstanceBackend string
	StorageBackend  string
	HomeStoreKey    string
	HomeCtx         HomeContext

	Conditions     Conditions
	ObservedAt     time.Time
	Phase          Phase
	PhaseChangedAt time.Time
	Operation      Operation
	OpStartedAt    time.Time
	ArchiveOpID    string
	ArchiveKey     string
	Endpoint       string
	ErrorReason    ErrorReason
	ErrorMessage   string
	ErrorCount     int

	DesiredState DesiredState
	LastAccessAt time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
	DeletedAt    time.Time
}

// Deleted reports whether the workspace's owner has deleted it.
func (w Workspace) Deleted() bool { return !w.DeletedAt.IsZero() }

// HomeContext is what the controller remembers about the data on the volume. It
// is stored as JSON in home_ctx.
type HomeContext struct {
	// RestoreMarker is the archive key whose content the volume was last known to
	// start from. The volume holds the workspace's data only while it equals
	// archive_key (SPEC 12.1).
	RestoreMarker string `json:"restore_marker,omitempty"`
	// RestoreOpID names the restore that is running, so that a job left over from
	// an earlier one is never taken for it.
	RestoreOpID string `json:"restore_op_id,omitempty"`
	// Dirty is set before a container may write to the volume: from then on the
	// archive, if there is one, is older than the volume (SPEC 12.2).
	Dirty bool `json:"dirty,omitempty"`
	// Crashes counts containers that ended soon after they had started, without
	// one that lasted in between (SPEC 12.5).
	Crashes int `json:"crashes,omitempty"`
}
