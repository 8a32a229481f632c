package verify

import (
	"slices"
	"time"

	"github.com/docker/go-units"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// sight is everything that exists of a workspace.
type sight struct {
	id  workspace.ID
	row *store.Inspected // nil: the database does not know it
	// versions are its complete archives, the newest first.
	versions []workspace.ArchiveVersion
	// volume is nil if there is none. It is unknown unless volumes is set.
	volume  *workspace.Volume
	volumes bool
	// container and jobs are queried only for a suspicious workspace.
	container *workspace.Container
	jobs      []workspace.Job
}

// broken returns the remedy for an archive that differs from its original.
func broken(id workspace.ID) string {
	return "bring the object back from a copy of the bucket, " + another(id)
}

// another returns the remedy that does not need the archive.
func another(id workspace.ID) string {
	return "or go on with another one: caddy codehub workspace archives " + string(id)
}

// judge returns the discrepancies of a workspace, the most important first.
func judge(now time.Time, s sight) []Discrepancy {
	switch w := s.row; {
	case w == nil && len(s.versions) == 0:
		return nil
	case w == nil:
		last := s.versions[0]
		return []Discrepancy{{
			Finding: check.Problem("take it up: caddy codehub workspace adopt "+string(s.id),
				"the database does not know it, and it has %s, the last of %s (%s)", check.Count(len(s.versions), "archive"),
				last.Modified.UTC().Format(time.DateTime), units.BytesSize(float64(last.Size))),
			Workspace: s.id, Archive: last.Key, Unknown: true,
		}}
	case w.Deleted():
		return deleted(s)
	case w.NeedsRecovery() != "":
		level := check.Warning
		if w.NeedsRecovery().DoubtsData() {
			level = check.Problem
		}
		return []Discrepancy{discrepancy(w.Workspace, level(recovery(w.ID), "it is in ERROR %s: %s", w.NeedsRecovery(), w.ErrorMessage))}
	}
	found := unlike(s)
	if reason, message := opened(now, s); reason != "" {
		found = append(found, discrepancy(s.row.Workspace, check.Problem("when it is opened: "+recovery(s.row.ID),
			"opened, it is in ERROR %s: %s", reason, message)))
	}
	return found
}

func recovery(id workspace.ID) string { return "caddy codehub workspace recover " + string(id) }

// discrepancy returns a finding about a workspace and its current archive.
func discrepancy(w workspace.Workspace, f check.Finding) Discrepancy {
	return Discrepancy{Finding: f, Workspace: w.ID, Archive: w.ArchiveKey}
}

// deleted judges a workspace that is deleted in the database. If it was undeleted after the backup, it has
// newer archives.
func deleted(s sight) []Discrepancy {
	w := s.row
	if !w.CollectedAt.IsZero() || w.YoungerArchive(s.versions) == "" || w.ArchiveKey == "" {
		return nil
	}
	return []Discrepancy{discrepancy(w.Workspace, check.Problem("caddy codehub workspace undelete "+string(w.ID),
		"it is deleted in the database, and has newer archives: the deletion may have been undone since"))}
}

// unlike reports how the current archive differs from its record.
func unlike(s sight) []Discrepancy {
	w := s.row
	if w.ArchiveKey == "" {
		return nil
	}
	i := slices.IndexFunc(s.versions, func(v workspace.ArchiveVersion) bool { return v.Key == w.ArchiveKey })
	switch {
	case i < 0 && s.volume != nil:
		return []Discrepancy{discrepancy(w.Workspace, check.Warning("keep its volume: the next archive is made of that",
			"its archive or the commit marker is not in the object store; its files are on its volume"))}
	case i < 0: // the planner reports the consequences
		return nil
	case w.ArchiveSize > 0 && s.versions[i].Size != w.ArchiveSize:
		return []Discrepancy{discrepancy(w.Workspace, check.Problem(broken(w.ID),
			"its archive has %d bytes, and had %d when it was made", s.versions[i].Size, w.ArchiveSize))}
	case w.ArchiveDamage != "":
		return []Discrepancy{discrepancy(w.Workspace, check.Problem(broken(w.ID),
			"its archive is damaged: %s", w.ArchiveDamage))}
	}
	return nil
}

// stepsToOpen is the largest number of decisions between a row and the operation that gives the workspace its home.
const stepsToOpen = 6

// opened returns the error that opening the workspace now would cause, according to the planner. It assumes that no
// process works on the workspace's operation, as after a restart.
func opened(now time.Time, s sight) (workspace.ErrorReason, string) {
	w := s.row.Workspace
	o := workspace.Observation{
		Volume: s.volume, Container: s.container, Jobs: s.jobs, Store: workspace.StoreAnswer{State: workspace.StoreAnswers},
	}
	if !s.volumes {
		if w.Phase != workspace.PhaseArchived { // its files may be on a volume
			return "", ""
		}
		o.Volume = nil
	}
	present := func(key string) workspace.Presence {
		if slices.ContainsFunc(s.versions, func(v workspace.ArchiveVersion) bool { return v.Key == key }) {
			return workspace.Present
		}
		return workspace.Absent
	}
	w.DesiredState = workspace.DesiredRunning
	policy := planner.Policy{MaxRetry: 1, NewOpID: uuid.NewString}
	for range stepsToOpen {
		o.Archive, o.Upload = present(w.ArchiveKey), present(w.ID.ArchiveKey(w.ArchiveOpID))
		o.Chosen = workspace.Absent
		if w.Revert != nil {
			o.Chosen = present(w.Revert.Key)
		}
		o.Younger = w.YoungerArchive(s.versions)
		d := planner.Reconcile(now, w, o, false, policy)
		switch {
		case d.Next.Phase == workspace.PhaseError:
			return d.Next.ErrorReason, d.Next.ErrorMessage
		case d.Next.InUseInConflict():
			return workspace.ReasonConflict, d.Next.Waiting.Message
		case d.Action != planner.ActNothing && d.Action != planner.ActDeleteJobs, !d.Changed:
			return "", ""
		}
		w = d.Next
	}
	return "", ""
}
