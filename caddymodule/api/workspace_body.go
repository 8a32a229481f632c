package api

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// workspaceBody is a workspace in answers and events: every column of SPEC 4 that is
// not internal, under its own name, and the address for people.
type workspaceBody struct {
	ID          workspace.ID `json:"id"`
	OwnerID     string       `json:"owner_user_id"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	Memo        *string      `json:"memo"`
	ImageRef    *string      `json:"image_ref"`
	// What it runs on, and where its volume is: "docker" or "kubernetes".
	InstanceBackend string `json:"instance_backend"`
	StorageBackend  string `json:"storage_backend"`
	// The last observation (SPEC 2), and what follows from it.
	Conditions     workspace.Conditions `json:"conditions"`
	ObservedAt     *time.Time           `json:"observed_at"`
	Phase          workspace.Phase      `json:"phase"`
	PhaseChangedAt *time.Time           `json:"phase_changed_at"`
	// What is being done, NONE at rest, and where the files are archived.
	Operation   workspace.Operation `json:"operation"`
	OpStartedAt *time.Time          `json:"op_started_at"`
	ArchiveOpID *string             `json:"archive_op_id"`
	ArchiveKey  *string             `json:"archive_key"`
	// What it waits for; null while it waits for nothing.
	Waiting *waitingBody `json:"waiting"`
	// Why the last operation failed; null and 0 when it did not.
	ErrorReason  *workspace.ErrorReason `json:"error_reason"`
	ErrorMessage *string                `json:"error_message"`
	ErrorCount   int                    `json:"error_count"`
	// What its owner wants, and when it was last used: null before the first use.
	DesiredState workspace.DesiredState `json:"desired_state"`
	LastAccessAt *time.Time             `json:"last_access_at"`
	CreatedAt    *time.Time             `json:"created_at"`
	UpdatedAt    *time.Time             `json:"updated_at"`
	DeletedAt    *time.Time             `json:"deleted_at"`
	// Until when the deletion can be undone; null when it is not deleted, or no longer.
	UndeleteUntil *time.Time `json:"undelete_until"`
	// Where people open it; a path when it is on the main site.
	URL string `json:"url"`
}

// waitingBody is what a workspace waits for: a stable word, a sentence for people, and
// since when.
type waitingBody struct {
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
}

// body returns w as the client of this call gets it.
func (c *call) body(w workspace.Workspace) workspaceBody {
	conditions := w.Conditions
	if conditions == nil {
		conditions = workspace.Conditions{}
	}
	body := workspaceBody{
		ID: w.ID, OwnerID: w.OwnerID, Name: w.Name,
		Description: orNull(w.Description), Memo: orNull(w.Memo), ImageRef: orNull(w.ImageRef),
		InstanceBackend: w.InstanceBackend, StorageBackend: w.StorageBackend,
		Conditions: conditions, ObservedAt: timeOrNull(w.ObservedAt),
		Phase: w.Phase, PhaseChangedAt: timeOrNull(w.PhaseChangedAt),
		Operation: w.Operation, OpStartedAt: timeOrNull(w.OpStartedAt),
		ArchiveOpID: orNull(w.ArchiveOpID), ArchiveKey: orNull(w.ArchiveKey),
		ErrorReason: orNull(w.ErrorReason), ErrorMessage: orNull(w.ErrorMessage), ErrorCount: w.ErrorCount,
		DesiredState: w.DesiredState, LastAccessAt: timeOrNull(w.LastAccessAt),
		CreatedAt: timeOrNull(w.CreatedAt), UpdatedAt: timeOrNull(w.UpdatedAt), DeletedAt: timeOrNull(w.DeletedAt),
		URL: c.workspaceURL(c.r, w.ID),
	}
	if w.Waiting != nil {
		body.Waiting = &waitingBody{w.Waiting.Reason, w.Waiting.Message, timeOrNull(w.Waiting.Since)}
	}
	if w.Deleted() && w.CollectedAt.IsZero() && !w.DeleteNow && w.Phase != workspace.PhaseDeleted {
		body.UndeleteUntil = timeOrNull(w.DeletedAt.Add(c.DeletionDelay))
	}
	return body
}

// orNull makes the empty text null.
func orNull[T ~string](s T) *T {
	if s == "" {
		return nil
	}
	return &s
}

// timeOrNull makes the zero time null, and shows others in UTC.
func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
