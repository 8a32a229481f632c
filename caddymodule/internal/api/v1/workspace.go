// Package v1 is how things look in the REST API below /api/v1, and in what `caddy codehub`
// prints for programs. It has the JSON objects, and how they follow from what the coordinator
// knows.
//
// It owns names, units and what is null. It must not ask a service or read a request, and must
// show no more than the view says. What is here can only grow: programs rely on it.
package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Workspace is a workspace in answers and events: every column of SPEC 4 that is
// not internal, under its own name, and the address for people.
type Workspace struct {
	ID          workspace.ID `json:"id"`
	OwnerID     string       `json:"owner_user_id"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	Memo        *string      `json:"memo"`
	ImageRef    *string      `json:"image_ref"`
	// The address of the repository that its image clones into an empty project, as it was created with;
	// null without one.
	GitURL *string `json:"git_url"`
	// Whether it is one of its owner's favourites, which come first on the dashboard.
	Favourite bool `json:"favourite"`
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
	// How far the storage job of the operation is; null while there is none.
	Progress *Progress `json:"progress"`
	// How that archive is; null while there is none. And the older one that the workspace goes
	// back to; null while it does not.
	Archive *ArchiveState `json:"archive"`
	Revert  *Revert       `json:"revert"`
	// What it waits for; null while it waits for nothing.
	Waiting *Waiting `json:"waiting"`
	// Why the last operation failed; null and 0 when it did not.
	ErrorReason  *workspace.ErrorReason `json:"error_reason"`
	ErrorMessage *string                `json:"error_message"`
	ErrorCount   int                    `json:"error_count"`
	// What the error means to the owner and what the owner can do, in every language.
	ErrorHelp *words.Text `json:"error_help"`
	// What its owner wants, and when it was last used: null before the first use.
	DesiredState workspace.DesiredState `json:"desired_state"`
	LastAccessAt *time.Time             `json:"last_access_at"`
	CreatedAt    *time.Time             `json:"created_at"`
	UpdatedAt    *time.Time             `json:"updated_at"`
	DeletedAt    *time.Time             `json:"deleted_at"`
	// Until when the deletion can be undone; null when it is not deleted, or no longer.
	UndeleteUntil *time.Time `json:"undelete_until"`
	// In a list of deleted ones, how many bytes it takes up until then: its archives, and its home on a volume that is
	// left. Null elsewhere.
	KeptBytes *int64 `json:"kept_bytes"`
	// How much its home holds; null while that is not known.
	Home *Home `json:"home"`
	// Where people open it; a path when it is on the main site.
	URL string `json:"url"`
	Work
}

// OwnedWorkspace is a workspace in a list of all users', with the name of its owner.
type OwnedWorkspace struct {
	Workspace
	Owner string `json:"owner_username"`
}

// Home is how much a home holds, and when that was found out.
type Home struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// There is more: the measurement was cut short.
	AtLeast    bool       `json:"at_least"`
	MeasuredAt *time.Time `json:"measured_at"`
	// It has reached the size from which this server warns.
	Large bool `json:"large"`
}

// Waiting is what a workspace waits for: a stable word, a sentence for people, and
// since when. For JobQueued Before is how many storage jobs come first, from 10 on how many at
// least; it is absent for the other reasons.
type Waiting struct {
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
	Before  *int       `json:"before,omitempty"`
	// Done of Total bytes of the image are pulled; Total is absent while it is unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Cause is why the last attempt to pull the image has failed: "unreachable", "timeout", "rate_limit",
	// "server_error" or "unknown". It is absent while none has failed; another attempt follows by itself.
	Cause string `json:"cause,omitempty"`
	// Port is where the application does not answer; Ports are those that listen, and LocalPorts those that only
	// the workspace itself reaches.
	Port       int   `json:"port,omitempty"`
	Ports      []int `json:"ports,omitempty"`
	LocalPorts []int `json:"local_ports,omitempty"`
	// Help says in the languages of the pages what it waits for and what to do.
	Help words.Text `json:"help"`
}

// Progress is how far a storage job is, as it was at updated_at. What is unknown is null.
type Progress struct {
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
	Text words.Text `json:"text"`
}

// progressOf returns p for an answer.
func progressOf(p workspace.JobProgress) *Progress {
	body := &Progress{
		Step: p.Step, Bytes: p.Done, TotalBytes: numberOrNull(p.Total),
		BytesPerSecond: numberOrNull(p.Rate), Files: p.Files,
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

var _ map[View]struct{} // what is made for a view is kept for all streams that have the same

// View is for whom a workspace is shown, and what of it is not in its row.
type View struct {
	// Admin says that an administrator looks: only those get what servers said.
	Admin bool
	// URL is where people open the workspace.
	URL string
	// HomeWarn is the size from which this server warns of a home; 0 for never.
	HomeWarn int64
	// Standby is after how long without use this server puts a workspace to sleep.
	Standby time.Duration
	// DeletionDelay is how long a deletion can be undone for certain.
	DeletionDelay time.Duration
}

// WorkspaceOf returns w as the client of a view gets it.
func WorkspaceOf(w workspace.Workspace, v View) Workspace {
	if !v.Admin {
		w = explain.OwnersView(w)
	}
	conditions := w.Conditions
	if conditions == nil {
		conditions = workspace.Conditions{}
	}
	body := Workspace{
		ID: w.ID, OwnerID: w.OwnerID, Name: w.Name,
		Description: orNull(w.Description), Memo: orNull(w.Memo), ImageRef: orNull(w.ImageRef), GitURL: orNull(w.GitURL), Favourite: w.Favourite,
		InstanceBackend: w.InstanceBackend, StorageBackend: w.StorageBackend,
		Conditions: conditions, ObservedAt: timeOrNull(w.ObservedAt),
		Phase: w.Phase, PhaseChangedAt: timeOrNull(w.PhaseChangedAt),
		Operation: w.Operation, OpStartedAt: timeOrNull(w.OpStartedAt),
		ArchiveOpID: orNull(w.ArchiveOpID), ArchiveKey: orNull(w.ArchiveKey),
		Archive: archiveStateOf(w), Revert: revertOf(w),
		ErrorReason: orNull(w.ErrorReason), ErrorMessage: orNull(w.ErrorMessage), ErrorCount: w.ErrorCount,
		DesiredState: w.DesiredState, LastAccessAt: timeOrNull(w.LastAccessAt),
		CreatedAt: timeOrNull(w.CreatedAt), UpdatedAt: timeOrNull(w.UpdatedAt), DeletedAt: timeOrNull(w.DeletedAt),
		URL: v.URL, Work: workOf(w, v),
	}
	if w.ErrorReason != "" {
		help := explain.Failed(w.ErrorReason)
		body.ErrorHelp = &help
	}
	if w.Progress != nil {
		body.Progress = progressOf(*w.Progress)
	}
	if w.Waiting != nil {
		body.Waiting = &Waiting{Reason: w.Waiting.Reason, Message: w.Waiting.Message,
			Since: timeOrNull(w.Waiting.Since), Done: w.Waiting.Done, Total: w.Waiting.Total,
			Cause: w.Waiting.Cause, Port: w.Waiting.Port, Ports: w.Waiting.Ports, LocalPorts: w.Waiting.LocalPorts, Help: explain.Waits(*w.Waiting, v.Admin)}
		if w.Waiting.Reason == workspace.WaitJobQueue {
			body.Waiting.Before = &w.Waiting.Before
		}
	}
	if h := w.Home; !h.MeasuredAt.IsZero() {
		body.Home = &Home{h.Bytes, h.Files, h.AtLeast, timeOrNull(h.MeasuredAt), explain.LargeHome(h, v.HomeWarn)}
	}
	if w.Deleted() && w.CollectedAt.IsZero() && !w.DeleteNow && w.Phase != workspace.PhaseDeleted {
		body.UndeleteUntil = timeOrNull(w.DeletedAt.Add(v.DeletionDelay))
	}
	return body
}

// Work is what an answer says about a workspace that is not used. All of it is null
// while it does not matter.
type Work struct {
	// Until when its owner keeps it awake, and when it goes to sleep unless it is used.
	KeepAwakeUntil *time.Time `json:"keep_awake_until"`
	SleepAt        *time.Time `json:"sleep_at"`
	// When it goes to sleep if it is not used from now on, known as long as it runs. Null while something
	// works in it. The time moves on with every use; sleep_at is set when it is near.
	SleepDueAt *time.Time `json:"sleep_due_at"`
	// Since when it dozes, because it is not used: its container is frozen. It keeps its memory,
	// its programs and its connections, and goes on at once when it is used. Null while it does not doze.
	DozeAt *time.Time `json:"doze_at"`
	// Why it stays awake: a stable word, what is busy in the workspace's own words, and
	// since when.
	Busy *workspace.Busy `json:"busy"`
	// How people are told from open tabs in its pages: "presence", or "traffic" when its
	// pages cannot report them, so that everything counts.
	PageActivity *workspace.PageActivity `json:"page_activity"`
}

func workOf(w workspace.Workspace, v View) Work {
	work := Work{
		KeepAwakeUntil: timeOrNull(w.KeepAwakeUntil), SleepAt: timeOrNull(w.SleepAt),
		SleepDueAt:   timeOrNull(explain.SleepDue(w, v.Standby)),
		Busy:         w.Busy,
		PageActivity: orNull(w.PageActivity),
	}
	if w.Dozes() {
		work.DozeAt = timeOrNull(w.DozeAt)
	}
	return work
}
