// Package v1 defines the JSON objects of the REST API below /api/v1, and of the output of `caddy
// codehub` for programs. It derives them from the data of the coordinator.
//
// It owns names, units and the meaning of null. It must not call a service or read a request, and
// must show no more than the view allows. The objects can only grow, because programs rely on them.
package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Workspace is a workspace in answers and events: every column of SPEC 4 that is not internal,
// under its own name, and its address for people.
type Workspace struct {
	ID          workspace.ID `json:"id"`
	OwnerID     string       `json:"owner_user_id"`
	Name        string       `json:"name"`
	Description *string      `json:"description"`
	Memo        *string      `json:"memo"`
	ImageRef    *string      `json:"image_ref"`
	// The address, set at its creation, of the repository that its image clones into an empty project;
	// null without one.
	GitURL *string `json:"git_url"`
	// Whether it is one of its owner's favourites, which come first on the dashboard.
	Favourite bool `json:"favourite"`
	// The backend that holds its container and volume: "docker" or "kubernetes".
	InstanceBackend string `json:"instance_backend"`
	StorageBackend  string `json:"storage_backend"`
	// The last observation (SPEC 2), and the phase derived from it.
	Conditions     workspace.Conditions `json:"conditions"`
	ObservedAt     *time.Time           `json:"observed_at"`
	Phase          workspace.Phase      `json:"phase"`
	PhaseChangedAt *time.Time           `json:"phase_changed_at"`
	// The operation in progress, NONE at rest, and the location of the current archive.
	Operation   workspace.Operation `json:"operation"`
	OpStartedAt *time.Time          `json:"op_started_at"`
	ArchiveOpID *string             `json:"archive_op_id"`
	ArchiveKey  *string             `json:"archive_key"`
	// The progress of the operation's storage job; null if there is none.
	Progress *Progress `json:"progress"`
	// The state of that archive, null if there is none; and the older archive that is being
	// restored, null if none is.
	Archive *ArchiveState `json:"archive"`
	Revert  *Revert       `json:"revert"`
	// Why it waits; null if it does not.
	Waiting *Waiting `json:"waiting"`
	// Why the last operation failed; null and 0 if it did not.
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
	// Until when its deletion can be undone; null if it is not deleted or no longer can be undone.
	UndeleteUntil *time.Time `json:"undelete_until"`
	// In a list of deleted workspaces, the bytes that its archives and remaining volume take up until then. Null
	// elsewhere.
	KeptBytes *int64 `json:"kept_bytes"`
	// The size of its home; null if not known.
	Home *Home `json:"home"`
	// Its address for people; a path if it is on the main site.
	URL string `json:"url"`
	Work
}

// OwnedWorkspace is a workspace in a list of all users', with the name of its owner.
type OwnedWorkspace struct {
	Workspace
	Owner string `json:"owner_username"`
}

// Home is the size of a home, and when it was measured.
type Home struct {
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// The home is larger: the measurement was cut short.
	AtLeast    bool       `json:"at_least"`
	MeasuredAt *time.Time `json:"measured_at"`
	// It has reached the size at which this server warns.
	Large bool `json:"large"`
}

// Waiting is why a workspace waits: a stable word, a sentence for people, and since when. For
// JobQueued, Before is how many storage jobs come first, from 10 on a minimum; it is absent for
// other reasons.
type Waiting struct {
	Reason  string     `json:"reason"`
	Message string     `json:"message"`
	Since   *time.Time `json:"since"`
	Before  *int       `json:"before,omitempty"`
	// Done of Total bytes of the image are pulled; Total is absent while it is unknown.
	Done  int64 `json:"done,omitempty"`
	Total int64 `json:"total,omitempty"`
	// Cause is why the last attempt to pull the image failed: "unreachable", "timeout", "rate_limit",
	// "server_error" or "unknown". It is absent if none has failed; another attempt follows
	// automatically.
	Cause string `json:"cause,omitempty"`
	// Port is the port on which the application does not answer. Ports are the listening ones, and LocalPorts
	// those that only the workspace itself can reach.
	Port       int   `json:"port,omitempty"`
	Ports      []int `json:"ports,omitempty"`
	LocalPorts []int `json:"local_ports,omitempty"`
	// Help explains, in the languages of the pages, why it waits and what to do.
	Help words.Text `json:"help"`
}

// Progress is the progress of a storage job at updated_at. Unknown values are null.
type Progress struct {
	// The step: "compare" (looking for changes), "archive" (packing and uploading), "upload" (the
	// rest), "verify", "commit"; "unpack" (downloading and unpacking), "swap" (putting the files in
	// place).
	Step string `json:"step"`
	// How much of the step is done, its speed, and the remaining time.
	Percent        *int   `json:"percent"`
	Bytes          int64  `json:"bytes"`
	TotalBytes     *int64 `json:"total_bytes"`
	BytesPerSecond *int64 `json:"bytes_per_second"`
	SecondsLeft    *int64 `json:"seconds_left"`
	// The number of files and folders of the home processed so far.
	Files     int64      `json:"files"`
	UpdatedAt *time.Time `json:"updated_at"`
	// The progress in words.
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

var _ map[View]struct{} // a View is a map key: events made for a view are shared by all streams with the same view

// View describes for whom a workspace is shown, and data that is not in its row.
type View struct {
	// Admin is true for administrators: only they see messages of servers.
	Admin bool
	// URL is the workspace's address for people.
	URL string
	// HomeWarn is the home size at which this server warns; 0 for never.
	HomeWarn int64
	// Standby is the unused time after which this server puts a workspace to sleep.
	Standby time.Duration
	// DeletionDelay is how long undoing a deletion is guaranteed.
	DeletionDelay time.Duration
}

// WorkspaceOf returns w in the form for a view.
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

// Work describes a workspace that is not used. Fields that do not apply are null.
type Work struct {
	// Until when its owner keeps it awake, and when it goes to sleep unless it is used.
	KeepAwakeUntil *time.Time `json:"keep_awake_until"`
	SleepAt        *time.Time `json:"sleep_at"`
	// When it goes to sleep if it is not used from now on, known while it runs. Null while work keeps it
	// awake. Every use postpones this time; sleep_at is set when it is near.
	SleepDueAt *time.Time `json:"sleep_due_at"`
	// Since when it has been dozing because it is not used: its container is frozen. It keeps its memory,
	// programs and connections, and resumes immediately when it is used. Null if it does not doze.
	DozeAt *time.Time `json:"doze_at"`
	// Why it stays awake: a stable word, the busy program in the workspace's own words, and since
	// when.
	Busy *workspace.Busy `json:"busy"`
	// How use by people is distinguished from open tabs: "presence", or "traffic" if its pages
	// cannot report whether a person uses them, so that everything counts.
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
