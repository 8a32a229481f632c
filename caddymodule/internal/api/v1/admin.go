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

// History is a page of what happened, the newest first.
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

// Overview is how all workspaces are.
type Overview struct {
	// How many workspaces there are, by their phase, operation, reason to wait, and error.
	Phases     map[string]int `json:"phases"`
	Operations map[string]int `json:"operations"`
	Waiting    map[string]int `json:"waiting"`
	Errors     map[string]int `json:"errors"`
	// Those that run or are to run, and of how many; null where there is no limit.
	Running    int  `json:"running"`
	MaxRunning *int `json:"max_running_global"`
	// Those that doze, which do not count as running, and of how many; null where there is no limit.
	Dozing    int  `json:"dozing"`
	MaxDozing *int `json:"max_dozing_global"`
	// Those that can be undeleted, and what their archives take up, with their homes on volumes that are left.
	Deleted      int   `json:"deleted"`
	DeletedBytes int64 `json:"deleted_bytes"`
	Users        int   `json:"users"`
	// The sum of the homes, as far as they were measured.
	HomeBytes int64 `json:"home_bytes"`
	// Null where the disk of the homes is not known.
	Disk     *DiskUse      `json:"disk"`
	Archives ArchiveHealth `json:"archives"`
	// The processes that lead: one, or one for each shard.
	Leaders []Leader `json:"leaders"`
	// The process that has answered, for how many seconds it runs, and what keeps workspaces from being acted upon.
	Node     string   `json:"node_id"`
	Uptime   int64    `json:"uptime_seconds"`
	Problems []string `json:"problems"`
}

// DiskUse is how full a disk is.
type DiskUse struct {
	Used  int64 `json:"used_bytes"`
	Total int64 `json:"total_bytes"`
}

// ArchiveHealth is how well the current archives are.
type ArchiveHealth struct {
	Current int64 `json:"current"`
	Damaged int64 `json:"damaged"`
	// Those that were never read back, and for how many seconds the one was not that was read back first.
	Unverified int64 `json:"unverified"`
	Oldest     int64 `json:"oldest_verification_seconds"`
	// Those that an administrator has asked to read back now, and that are not read yet.
	ToRead      int64 `json:"to_read"`
	ToReadBytes int64 `json:"to_read_bytes"`
}

// Leader is a process that leads.
type Leader struct {
	// "coordinator", with the number of the shard where there are several.
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

// Scrub is what there is to read back.
type Scrub struct {
	DryRun bool `json:"dry_run"`
	// All archives of workspaces that are not deleted, and those of them that were never read back.
	Archives int64 `json:"archives"`
	Bytes    int64 `json:"size_bytes"`
	Unread   int64 `json:"unread"`
	// When that archive was read back which was not for the longest time; null where none was.
	OldestRead *time.Time `json:"oldest_read_at"`
	// For how many seconds all of them are read, at least.
	Seconds int64 `json:"seconds"`
	// Those that are still to be read because an administrator has asked for it.
	ToRead      int64 `json:"to_read"`
	ToReadBytes int64 `json:"to_read_bytes"`
}

// ScrubOf returns s as programs see it.
func ScrubOf(s store.Scrub, dry bool) Scrub {
	return Scrub{
		dry, s.Archives, s.Bytes, s.Unread, timeOrNull(s.OldestRead), s.Bytes / scrub.MaxSpeed, s.Left, s.LeftBytes,
	}
}

// Collection is what a garbage collection has done, or would do.
type Collection struct {
	DryRun bool   `json:"dry_run"`
	Report Report `json:"report"`
	// Why nothing is deleted, in English; null where nothing speaks against it.
	Stopped *string `json:"stopped"`
	// The archives that are not protected, and whether there are more.
	Items []Finding `json:"items"`
	More  bool      `json:"more"`
}

// Report counts archives.
type Report struct {
	Archives int `json:"archives"`
	// Those that no workspace needs, and those of them that the next collection deletes.
	Orphans int `json:"orphans"`
	Due     int `json:"due"`
	// Those that do not fit the database, which are kept.
	Reported int `json:"reported"`
	// What became of those that were due. Spared ones are needed again.
	Deleted int `json:"deleted"`
	Spared  int `json:"spared"`
	Failed  int `json:"failed"`
	// Other objects in the bucket, which are left alone, and unfinished uploads that were too old.
	Foreign int `json:"foreign"`
	Uploads int `json:"uploads"`
}

// ReportOf returns r as programs see it.
func ReportOf(r gc.Report) Report {
	return Report{r.Archives, r.Orphans, r.Due, r.Unknown + r.Newer, r.Deleted, r.Spared, r.Failed, r.Foreign, r.Uploads}
}

// Finding is what becomes of an archive.
type Finding struct {
	Key       string       `json:"archive"`
	Workspace workspace.ID `json:"workspace_id"`
	// Null where only its commit marker is there.
	Size     *int64     `json:"size_bytes"`
	Modified time.Time  `json:"modified"`
	Verdict  gc.Verdict `json:"verdict"`
	Reason   gc.Reason  `json:"reason"`
	// Since when it is known that no workspace needs it, and in how many seconds it is due; null while that is not known.
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
