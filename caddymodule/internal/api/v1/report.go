package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// UsageReport is how long workspaces were awake, asleep and archived (SPEC 14).
type UsageReport struct {
	// From is the first day, in UTC, and To the day after the last.
	From string `json:"from"`
	To   string `json:"to"`
	// Items are the workspaces of that time, sorted by the time awake, longest first.
	Items []WorkspaceUsage `json:"items"`
	// Days are the days on which any workspace existed, with the totals.
	Days []DayUsage `json:"days"`
}

// DayUsage is the usage of all workspaces of a report on one day.
type DayUsage struct {
	// Day is the day in UTC.
	Day string `json:"day"`
	PhaseHours
}

// PhaseHours are the hours that workspaces spent in each phase. They add up to the time for which the workspaces
// existed.
type PhaseHours struct {
	// Other is every phase but RUNNING, STANDBY and ARCHIVED.
	AwakeHours    float64 `json:"awake_hours"`
	AsleepHours   float64 `json:"asleep_hours"`
	ArchivedHours float64 `json:"archived_hours"`
	OtherHours    float64 `json:"other_hours"`
	// AwakeBy are the causes that kept them awake.
	AwakeBy AwakeBy `json:"awake_by"`
}

// AwakeBy are the hours for which each cause kept workspaces awake. They add up to the hours awake.
type AwakeBy struct {
	// Input is input by people, and Requests all other use: programs, transfers, commands and pages.
	InputHours    float64 `json:"input_hours"`
	RequestsHours float64 `json:"requests_hours"`
	// Work is work in unused workspaces.
	WorkHours float64 `json:"work_hours"`
	// KeepAwake is the owner's request to keep a workspace awake, without use or work.
	KeepAwakeHours float64 `json:"keep_awake_hours"`
	// Idle is the rest: nothing happened, and the TTL had not expired.
	IdleHours float64 `json:"idle_hours"`
}

func phaseHoursOf(p usage.Phases) PhaseHours {
	return PhaseHours{p.Awake.Hours(), p.Asleep.Hours(), p.Archived.Hours(), p.Other.Hours(), AwakeBy{
		p.By.Input.Hours(), p.By.Requests.Hours(), p.By.Work.Hours(), p.By.KeepAwake.Hours(), p.By.Idle.Hours(),
	}}
}

// WorkspaceUsage is the usage of a workspace in the time of a report.
type WorkspaceUsage struct {
	WorkspaceID workspace.ID `json:"workspace_id"`
	// Name and Owner are the current names, null if they no longer exist.
	Name  *string `json:"name"`
	Owner *string `json:"owner_username"`
	PhaseHours
	// GB are 1,000,000,000 bytes, of measured sizes only: of the home on its volume, and of the archive.
	VolumeGBHours  float64 `json:"volume_gb_hours"`
	ArchiveGBHours float64 `json:"archive_gb_hours"`
}

// UsageReportOf returns a report as programs see it.
func UsageReportOf(r usage.Report) UsageReport {
	const gb = 1e9
	items := make([]WorkspaceUsage, len(r.Workspaces))
	for i, o := range r.Workspaces {
		items[i] = WorkspaceUsage{
			o.WorkspaceID, orNull(o.Name), orNull(o.Owner), phaseHoursOf(o.Phases), o.VolumeByteHours / gb, o.ArchiveByteHours / gb,
		}
	}
	days := make([]DayUsage, len(r.Days))
	for i, d := range r.Days {
		days[i] = DayUsage{d.Day.Format(time.DateOnly), phaseHoursOf(d.Phases)}
	}
	return UsageReport{r.From.Format(time.DateOnly), r.To.Format(time.DateOnly), items, days}
}
