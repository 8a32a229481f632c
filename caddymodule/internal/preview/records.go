package preview

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// log is the audit of a board.
type log struct{ *board }

func (log) Each(context.Context, auditlog.Filter, func(auditlog.Entry) error) error { return nil }
func (log) Write(context.Context, audit.Action, workspace.ID, map[string]any) error { return nil }
func (log) Refused(context.Context, auditlog.Refusal)                               {}

func (log) WriteIf(context.Context, []int64, audit.Action, workspace.ID, map[string]any) error {
	return nil
}

// List contains each action once. Users, an access token, the command line and the system have taken these actions. For
// the user's own account, it contains the entries of [log.own].
func (b log) List(_ context.Context, f auditlog.Filter, n int, before *auditlog.Cursor) (entries []auditlog.Entry, err error) {
	if f.Concerning != "" {
		for _, e := range b.own() {
			if len(entries) < n && (before == nil || e.ID < before.ID) {
				entries = append(entries, e)
			}
		}
		return entries, nil
	}
	at := time.Now()
	for i, action := range audit.Actions() {
		group, _, _ := strings.Cut(string(action), ".")
		e := auditlog.Entry{ID: int64(1000 - i), At: at.Add(-time.Duration(i) * 7 * time.Hour), Action: action, Outcome: audit.Done}
		e.Actor.Kind, e.Actor.ID, e.Actor.Name = audit.User, ownerID, ownerName
		e.Actor.Through, e.Actor.Address = audit.Page, "192.0.2.1"
		switch group {
		case "workspace":
			if i%3 == 1 {
				e.Actor.Through, e.Actor.TokenID, e.Actor.TokenName = audit.Token, "1", "backup"
			}
			if len(b.rows) > 0 {
				w := b.rows[i%len(b.rows)]
				e.WorkspaceID, e.WorkspaceName, e.UserID, e.UserName = w.ID, w.Name, ownerID, ownerName
			}
		case "user":
			e.UserID, e.UserName = "2", "mina"
		case "token":
			e.UserID, e.UserName, e.Details = ownerID, ownerName, map[string]any{"name": "backup"}
		case "system":
			e.Actor.Kind, e.Actor.ID, e.Actor.Name, e.Actor.Through, e.Actor.Address = audit.Operator, "", "root", audit.CommandLine, ""
			e.Actor.Host = "gateway-1"
		default:
			e.Outcome = "forbidden"
		}
		if f.Actions == nil || slices.Contains(f.Actions, action) {
			entries = append(entries, e)
		}
	}
	return entries, nil
}

// own returns the entries about the user's account, newest first: sign-ins, a refused one, and changes by an
// administrator. They fill more than the first page of the dashboard.
func (b log) own() []auditlog.Entry {
	entry := func(id int64, action audit.Action, outcome, by, name, address string) auditlog.Entry {
		e := auditlog.Entry{ID: id, At: time.Now().Add(time.Duration(id-13) * 9 * time.Hour), Action: action, Outcome: outcome,
			UserID: ownerID, UserName: ownerName}
		e.Actor.Kind, e.Actor.ID, e.Actor.Name, e.Actor.Through, e.Actor.Address = audit.User, by, name, audit.Page, address
		if action == audit.UserSignIn {
			e.Details = map[string]any{"client": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
		}
		return e
	}
	if len(b.rows) == 0 {
		return nil
	}
	entries := []auditlog.Entry{
		entry(12, audit.UserSignIn, audit.Done, ownerID, ownerName, "192.0.2.1"),
		entry(11, audit.UserSignIn, "invalid-credentials", ownerID, ownerName, "2001:db8:1234:5678:9abc:def0:1234:5678"),
		entry(10, audit.TokenCreate, audit.Done, ownerID, ownerName, "192.0.2.1"),
		entry(9, audit.UserLimits, audit.Done, "2", "mina", "192.0.2.7"),
	}
	for id := int64(8); id > 1; id-- {
		entries = append(entries, entry(id, audit.UserSignIn, audit.Done, ownerID, ownerName, "192.0.2.1"))
	}
	return append(entries, entry(1, audit.UserCreate, audit.Done, "2", "mina", "192.0.2.7"))
}

// used is how long a board's workspaces were in each phase.
type used struct{ *board }

func (used) Now(context.Context) (time.Time, error) { return time.Now(), nil }

// Report has more of everything on working days.
func (b used) Report(_ context.Context, from, to time.Time, _ string) (usage.Report, error) {
	report := usage.Report{From: from, To: to}
	hours := func(n float64) time.Duration { return time.Duration(n * float64(time.Hour)) }
	phases := func(share float64) usage.Phases {
		by := usage.Causes{
			Input: hours(4.1 * share), Requests: hours(1.2 * share), Work: hours(2.3 * share), KeepAwake: hours(0.6 * share), Idle: hours(1.5 * share),
		}
		awake := by.Input + by.Requests + by.Work + by.KeepAwake + by.Idle
		return usage.Phases{Awake: awake, Asleep: hours(9 * share), Archived: max(0, hours(30)-awake), By: by}
	}
	if len(b.rows) > 0 {
		for day := report.From; day.Before(report.To); day = day.AddDate(0, 0, 1) {
			share := 1 + float64(day.Day()%5)/6
			if wd := day.Weekday(); wd == time.Saturday || wd == time.Sunday {
				share = 0.1
			}
			report.Days = append(report.Days, usage.Day{Day: day, Phases: phases(share)})
		}
	}
	for i, w := range b.rows {
		of := usage.Of{WorkspaceID: w.ID, Name: w.Name, Owner: ownerName, Phases: phases(20 / float64(i+1))}
		if i%4 == 3 { // deleted since
			of.Name, of.Owner = "", ""
		}
		report.Workspaces = append(report.Workspaces, of)
	}
	return report, nil
}
