package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/control/scrub"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// History is a page of events, newest first.
type History[T any] struct {
	Items []T `json:"items"`
	// Where the next page begins; null at the end.
	Next *int64 `json:"next_before"`
}

// Event is a transition of any workspace.
type Event struct {
	Transition
	WorkspaceID workspace.ID `json:"workspace_id"`
	Name        string       `json:"name"`
	Owner       string       `json:"owner_username"`
}

// EventOf returns e as administrators see it.
func EventOf(e store.Event) Event {
	return Event{TransitionOf(e.Transition), e.WorkspaceID, e.Name, e.Owner}
}

// Overview is the state of all workspaces.
type Overview struct {
	// The numbers of workspaces by phase, operation, reason to wait, and error.
	Phases     map[string]int `json:"phases"`
	Operations map[string]int `json:"operations"`
	Waiting    map[string]int `json:"waiting"`
	Errors     map[string]int `json:"errors"`
	// The workspaces that run or are about to run, and their limit; null if there is none.
	Running    int  `json:"running"`
	MaxRunning *int `json:"max_running_global"`
	// The dozing workspaces, which do not count as running, and their limit; null if there is none.
	Dozing    int  `json:"dozing"`
	MaxDozing *int `json:"max_dozing_global"`
	// The workspaces that can be undeleted, and the size of their archives and remaining volumes.
	Deleted      int   `json:"deleted"`
	DeletedBytes int64 `json:"deleted_bytes"`
	Users        int   `json:"users"`
	// The total size of the homes that were measured.
	HomeBytes int64 `json:"home_bytes"`
	// Null if the disk of the homes is not known.
	Disk     *DiskUse      `json:"disk"`
	Archives ArchiveHealth `json:"archives"`
	// The leaders: one, or one per shard.
	Leaders []Leader `json:"leaders"`
	// The process that answered, how many seconds it has been running, and problems that keep it from acting on
	// workspaces.
	Node     string   `json:"node_id"`
	Uptime   int64    `json:"uptime_seconds"`
	Problems []string `json:"problems"`
}

// DiskUse is how full a disk is.
type DiskUse struct {
	Used  int64 `json:"used_bytes"`
	Total int64 `json:"total_bytes"`
}

// ArchiveHealth is the health of the current archives.
type ArchiveHealth struct {
	Current int64 `json:"current"`
	Damaged int64 `json:"damaged"`
	// The archives that were never read back, and how many seconds ago the one with the oldest check was
	// read back.
	Unverified int64 `json:"unverified"`
	Oldest     int64 `json:"oldest_verification_seconds"`
	// The archives that an administrator asked to read back now, and that are not read yet.
	ToRead      int64 `json:"to_read"`
	ToReadBytes int64 `json:"to_read_bytes"`
}

// Leader is a process that leads.
type Leader struct {
	// "coordinator", with the number of the shard if there are several.
	Lock  string    `json:"lock"`
	Node  string    `json:"node_id"`
	Epoch int64     `json:"epoch"`
	Since time.Time `json:"since"`
}

// OverviewOf returns an overview for an administrator.
func OverviewOf(o coordinator.Overview, h coordinator.Health, l service.Limits) Overview {
	counts := func(all []store.Count) map[string]int {
		m := make(map[string]int, len(all))
		for _, c := range all {
			m[c.Of] = c.Count
		}
		return m
	}
	out := Overview{
		Phases: counts(o.Phases), Operations: counts(o.Operations), Waiting: counts(o.Waiting), Errors: counts(o.Errors),
		Running: o.Running, MaxRunning: limitOrNull(l.Global), Dozing: o.Dozing, MaxDozing: limitOrNull(l.Dozing.Global), Deleted: o.Deleted, DeletedBytes: o.DeletedBytes, Users: o.Users, HomeBytes: o.HomeBytes,
		Archives: ArchiveHealth{
			o.Archives.Current, o.Archives.Damaged, o.Archives.Unverified, int64(o.Archives.Oldest.Seconds()), o.Scrub.Left, o.Scrub.LeftBytes,
		},
		Leaders: make([]Leader, len(o.Leaders)), Node: h.NodeID, Uptime: int64(h.Uptime.Seconds()),
		Problems: append([]string{}, h.Problems...),
	}
	for i, l := range o.Leaders {
		out.Leaders[i] = Leader{l.Lock, l.Node, l.Epoch, l.Since.UTC()}
	}
	if o.Disk != nil {
		out.Disk = &DiskUse{o.Disk.Total - o.Disk.Free, o.Disk.Total}
	}
	return out
}

// Scrub is the amount of archives to read back.
type Scrub struct {
	DryRun bool `json:"dry_run"`
	// The archives of all workspaces that are not deleted, and how many of them were never read
	// back.
	Archives int64 `json:"archives"`
	Bytes    int64 `json:"size_bytes"`
	Unread   int64 `json:"unread"`
	// When the archive with the oldest check was read back; null if none was.
	OldestRead *time.Time `json:"oldest_read_at"`
	// The minimum number of seconds that reading all of them takes.
	Seconds int64 `json:"seconds"`
	// The archives still to be read because an administrator asked for it.
	ToRead      int64 `json:"to_read"`
	ToReadBytes int64 `json:"to_read_bytes"`
}

// ScrubOf returns s as programs see it.
func ScrubOf(s store.Scrub, dry bool) Scrub {
	return Scrub{
		dry, s.Archives, s.Bytes, s.Unread, timeOrNull(s.OldestRead), s.Bytes / scrub.MaxSpeed, s.Left, s.LeftBytes,
	}
}

// Collection is the result of a garbage collection or of its dry run.
type Collection struct {
	DryRun bool   `json:"dry_run"`
	Report Report `json:"report"`
	// Why nothing is deleted, in English; null if deletion is allowed.
	Stopped *string `json:"stopped"`
	// The archives that are not protected, and whether there are more.
	Items []Finding `json:"items"`
	More  bool      `json:"more"`
}

// Report counts archives.
type Report struct {
	Archives int `json:"archives"`
	// The archives that no workspace needs, and how many of them the next collection deletes.
	Orphans int `json:"orphans"`
	Due     int `json:"due"`
	// The archives that contradict the database, which are kept.
	Reported int `json:"reported"`
	// The results for archives that were due. Spared ones are needed again.
	Deleted int `json:"deleted"`
	Spared  int `json:"spared"`
	Failed  int `json:"failed"`
	// Other objects in the bucket, which are left alone, and removed uploads that were unfinished
	// for too long.
	Foreign int `json:"foreign"`
	Uploads int `json:"uploads"`
}

// ReportOf returns r as programs see it.
func ReportOf(r gc.Report) Report {
	return Report{r.Archives, r.Orphans, r.Due, r.Unknown + r.Newer, r.Deleted, r.Spared, r.Failed, r.Foreign, r.Uploads}
}

// Finding is the verdict on an archive.
type Finding struct {
	Key       string       `json:"archive"`
	Workspace workspace.ID `json:"workspace_id"`
	// Null if only its commit marker exists.
	Size     *int64     `json:"size_bytes"`
	Modified time.Time  `json:"modified"`
	Verdict  gc.Verdict `json:"verdict"`
	Reason   gc.Reason  `json:"reason"`
	// When it was first found that no workspace needs it, and in how many seconds it is due; null if not known.
	FirstSeen *time.Time `json:"first_seen"`
	DeletedIn *int64     `json:"deleted_in_seconds"`
}

// FindingOf returns f as programs see it.
func FindingOf(f gc.Judgement) Finding {
	out := Finding{
		Key: f.Key, Workspace: f.Workspace, Modified: f.Modified.UTC(), Verdict: f.Verdict, Reason: f.Reason,
		FirstSeen: timeOrNull(f.FirstSeen),
	}
	if f.Size != gc.UnknownSize {
		out.Size = &f.Size
	}
	if !f.FirstSeen.IsZero() {
		out.DeletedIn = new(int64(f.Left / time.Second))
	}
	return out
}
