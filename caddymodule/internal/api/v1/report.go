package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// UsageReport is how long workspaces were awake, asleep and archived (SPEC 14).
type UsageReport struct {
	// From is the first day of UTC, and To the one after the last one.
	From string `json:"from"`
	To   string `json:"to"`
	// Items are the workspaces that existed in that time, those that were awake longest first.
	Items []WorkspaceUsage `json:"items"`
	// Days are the days on which any of them existed, with the sums of all of them.
	Days []DayUsage `json:"days"`
}

// DayUsage is what all workspaces of a report were on a day.
type DayUsage struct {
	// Day is that of UTC.
	Day string `json:"day"`
	PhaseHours
}

// PhaseHours are for how long workspaces were in each phase. The hours add up to the time for which they existed.
type PhaseHours struct {
	// Other is all but RUNNING, STANDBY and ARCHIVED.
	AwakeHours    float64 `json:"awake_hours"`
	AsleepHours   float64 `json:"asleep_hours"`
	ArchivedHours float64 `json:"archived_hours"`
	OtherHours    float64 `json:"other_hours"`
	// AwakeBy is what kept them awake.
	AwakeBy AwakeBy `json:"awake_by"`
}

// AwakeBy is for how long workspaces were kept awake by each cause. The causes add up to the hours awake.
type AwakeBy struct {
	// Input is that of people, and Requests are all other use: programs, transfers, commands and pages.
	InputHours    float64 `json:"input_hours"`
	RequestsHours float64 `json:"requests_hours"`
	// Work is what worked in them while nobody used them.
	WorkHours float64 `json:"work_hours"`
	// KeepAwake is the wish of their owners while neither was there.
	KeepAwakeHours float64 `json:"keep_awake_hours"`
	// Idle is the rest: nothing happened, and the TTL had not passed.
	IdleHours float64 `json:"idle_hours"`
}

func phaseHoursOf(p usage.Phases) PhaseHours {
	return PhaseHours{p.Awake.Hours(), p.Asleep.Hours(), p.Archived.Hours(), p.Other.Hours(), AwakeBy{
		p.By.Input.Hours(), p.By.Requests.Hours(), p.By.Work.Hours(), p.By.KeepAwake.Hours(), p.By.Idle.Hours(),
	}}
}

// WorkspaceUsage is what a workspace was in the time of a report.
type WorkspaceUsage struct {
	WorkspaceID workspace.ID `json:"workspace_id"`
	// Name and Owner are the present names, null where there are none any more.
	Name  *string `json:"name"`
	Owner *string `json:"owner_username"`
	PhaseHours
	// GB are 1,000,000,000 bytes, as far as sizes were measured: of the home on its volume, and of the archive.
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
