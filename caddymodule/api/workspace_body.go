package api

import (
	"time"

	"github.com/codehub/gateway/coordinator/explain"
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
	// How the storage job of the operation gets on; null while there is none.
	Progress *progressBody `json:"progress"`
	// How that archive is; null while there is none. And the older one that the workspace goes
	// back to; null while it does not.
	Archive *archiveBody `json:"archive"`
	Revert  *revertBody  `json:"revert"`
	// What it waits for; null while it waits for nothing.
	Waiting *waitingBody `json:"waiting"`
	// Why the last operation failed; null and 0 when it did not.
	ErrorReason  *workspace.ErrorReason `json:"error_reason"`
	ErrorMessage *string                `json:"error_message"`
	ErrorCount   int                    `json:"error_count"`
	// What the error means to the owner and what the owner can do, in every language.
	ErrorHelp *explain.Text `json:"error_help"`
	// What its owner wants, and when it was last used: null before the first use.
	DesiredState workspace.DesiredState `json:"desired_state"`
	LastAccessAt *time.Time             `json:"last_access_at"`
	CreatedAt    *time.Time             `json:"created_at"`
	UpdatedAt    *time.Time             `json:"updated_at"`
	DeletedAt    *time.Time             `json:"deleted_at"`
	// Until when the deletion can be undone; null when it is not deleted, or no longer.
	UndeleteUntil *time.Time `json:"undelete_until"`
	// How much its home holds; null while that is not known.
	Home *homeBody `json:"home"`
	// Where people open it; a path when it is on the main site.
	URL string `json:"url"`
	workBody
}

// homeBody is how much a home holds, and when that was found out.
type homeBody struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// There is more: the measurement was cut short.
	AtLeast    bool       `json:"at_least"`
	MeasuredAt *time.Time `json:"measured_at"`
	// It has reached the size from which this server warns.
	Large bool `json:"large"`
}

// waitingBody is what a workspace waits for: a stable word, a sentence for people, and
// since when.
type waitingBody struct {
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
}

// progressBody is how a storage job gets on, as it was at updated_at. What nobody knows is
// null.
type progressBody struct {
	// What it does: "compare" (looking for changes), "archive" (packing and uploading),
	// "upload" (the rest), "verify", "commit"; "unpack" (downloading and unpacking), "swap"
	// (putting the files in place).
	Step string `json:"step"`
	// How much of the step is done, how fast, and how long the rest takes.
	Percent        *int   `json:"percent"`
	Bytes          int64  `json:"bytes"`
	TotalBytes     *int64 `json:"total_bytes"`
	BytesPerSecond *int64 `json:"bytes_per_second"`
	SecondsLeft    *int64 `json:"seconds_left"`
	// How many files and folders of the home it has come past.
	Files     int64      `json:"files"`
	UpdatedAt *time.Time `json:"updated_at"`
	// The same in words.
	Text explain.Text `json:"text"`
}

// progressOf returns p for an answer.
func progressOf(p workspace.Progress) *progressBody {
	body := &progressBody{
		Step: p.Step, Bytes: p.Done, TotalBytes: orNothing(p.Total), BytesPerSecond: orNothing(p.Rate), Files: p.Files,
		UpdatedAt: timeOrNull(p.At), Text: explain.Progress(p),
	}
	if percent, known := p.Percent(); known {
		body.Percent = &percent
	}
	if left, known := p.Left(); known {
		body.SecondsLeft = new(int64(left.Seconds()))
	}
	return body
}

// orNothing makes 0 null.
func orNothing(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// body returns w as the client of this call gets it: only administrators get what servers
// said.
func (c *call) body(w workspace.Workspace) workspaceBody {
	if !c.user.Admin() {
		w = explain.OwnersView(w)
	}
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
		Archive: archiveBodyOf(w), Revert: revertBodyOf(w),
		ErrorReason: orNull(w.ErrorReason), ErrorMessage: orNull(w.ErrorMessage), ErrorCount: w.ErrorCount,
		DesiredState: w.DesiredState, LastAccessAt: timeOrNull(w.LastAccessAt),
		CreatedAt: timeOrNull(w.CreatedAt), UpdatedAt: timeOrNull(w.UpdatedAt), DeletedAt: timeOrNull(w.DeletedAt),
		URL: c.Site.WorkspaceURL(c.r, w.ID), workBody: workBodyOf(w),
	}
	if w.ErrorReason != "" {
		help := explain.Failed(w.ErrorReason)
		body.ErrorHelp = &help
	}
	if w.Progress != nil {
		body.Progress = progressOf(*w.Progress)
	}
	if w.Waiting != nil {
		body.Waiting = &waitingBody{w.Waiting.Reason, w.Waiting.Message, timeOrNull(w.Waiting.Since)}
	}
	if h := w.Home; !h.MeasuredAt.IsZero() {
		body.Home = &homeBody{h.Bytes, h.Files, h.AtLeast, timeOrNull(h.MeasuredAt), explain.LargeHome(h, c.Service.HomeWarn())}
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
