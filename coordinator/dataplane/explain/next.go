package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// next explains the next events: the end of the present state, and the fate of a deleted workspace.
func next(now time.Time, w workspace.Workspace, d Delays, e Explanation) []Statement {
	out := []Statement{}
	say := func(code, key string) { out = append(out, Statement{Code: code, Text: words.Of(key, nil)}) }
	step := func(state string) {
		out = append(out, Statement{Code: "Step", Text: words.Of("explain.next.step", words.Values{"State": state})})
	}
	switch {
	case w.Phase == workspace.PhaseDeleted:
		say("Nothing", "explain.next.nothing")
		return out
	case w.Phase == workspace.PhaseError && w.ErrorReason == "":
		say("Observed", "explain.next.observed")
	case w.Phase == workspace.PhaseError && !w.Deleted():
		say("NeedsRecovery", "explain.next.needs_recovery")
	case w.Operation != workspace.OpNone:
		out = append(out, duringOperation(now, w, d, e)...)
	case w.Waiting != nil && w.Waiting.Reason == workspace.WaitKeptUntilGivenUp:
		say("Kept", "explain.next.kept")
	case w.Waiting.Unlimited():
		say("Waits", "explain.next.waits")
	case w.Waiting != nil:
		say("TriedAgain", "explain.next.tried_again")
		if limit := d.WaitLimit; w.Waiting.Reason == workspace.WaitStoreRefuses && limit > 0 && !w.Deleted() &&
			!w.Conditions.True(workspace.VolumeReady) {
			out = append(out, timed("WaitEnds", w.Waiting.Since.Add(limit), "explain.next.wait_ends"))
		}
	case w.Deleted():
		if !w.AwaitsGC {
			step("DELETED")
		}
	case string(w.Phase) != string(w.Wanted()):
		step(string(w.Wanted()))
	default:
		out = append(out, converged(now, w, d)...)
	}
	if w.Deleted() {
		out = append(out, afterDeletion(w, d)...)
	}
	return out
}

// duringOperation explains how far the operation has come and when a failed attempt is repeated. It also explains when
// the operation ends in an error if it makes no progress.
func duringOperation(now time.Time, w workspace.Workspace, d Delays, e Explanation) []Statement {
	var out []Statement
	if p := w.Progress; p != nil {
		if text := Progress(*p); !text.Empty() {
			out = append(out, Statement{
				Code: "Progress", Since: p.At, Text: words.Of("explain.next.progress", words.Values{
					"Progress": text, "At": clock(p.At),
				}),
			})
		}
	}
	if w.ErrorCount > 0 && len(e.Errors) > 0 {
		retry := e.Errors[0].Since.Add(longestPause(w.ErrorCount))
		values := words.Values{"At": clock(retry), "Failed": w.ErrorCount, "Limit": d.MaxRetry}
		out = append(out, Statement{Code: "Retry", At: retry, Text: words.Of("explain.next.retry", values)})
	}
	limit := d.Timeouts[w.Operation]
	switch {
	case w.Waiting.Unlimited():
		out = append(out, Statement{Code: "Waits", Text: words.Of("explain.next.waits", nil)})
	case limit > 0 && !w.OpStartedAt.IsZero():
		end := w.LimitsBegin().Add(limit)
		key := "explain.next.times_out"
		if end.Before(now) {
			key = "explain.next.progresses" // or it would have ended
		}
		out = append(out, timed("Timeout", end, key))
	}
	return out
}

// longestPause is the longest time between a failure and the next attempt. Pauses are 1 s, 2 s, 4 s … 30 s, and up to
// half as much more (SPEC 1, contract 10).
func longestPause(failures int) time.Duration {
	pause := 30 * time.Second
	if failures <= 5 {
		pause = time.Second << max(failures-1, 0)
	}
	return pause * 3 / 2
}

// converged says how long a workspace stays in its desired state if it is not used.
func converged(now time.Time, w workspace.Workspace, d Delays) []Statement {
	switch {
	case w.Phase == workspace.PhaseRunning && d.Standby > 0 || w.Dozes():
		return running(now, w, d)
	case w.Phase == workspace.PhaseStandby && d.Archive > 0:
		return []Statement{ends("Archived", now, w.PhaseChangedAt.Add(d.Archive), d, "explain.next.archived",
			"explain.next.archived_soon")}
	}
	return []Statement{{Code: "Stays", Text: words.Of("explain.next.stays", nil)}}
}

// ends says when the state ends. An end that is already due comes with the next check.
func ends(code string, now, t time.Time, d Delays, key, soon string) Statement {
	if !t.After(now) {
		t, key = now.Add(d.TTLInterval), soon
	}
	return timed(code, t, key)
}

// timed says what happens at a time.
func timed(code string, t time.Time, key string) Statement {
	return Statement{Code: code, At: t, Text: words.Of(key, words.Values{"At": clock(t)})}
}

// unusedSince returns the time since which a running workspace has not been used.
func unusedSince(w workspace.Workspace) time.Time {
	return latest(w.PhaseChangedAt, w.LastAccessAt)
}

// SleepDue returns when a running workspace goes to sleep if it is not used from now on (SPEC 5). The time is zero
// while work keeps it awake without a limit, and if nothing puts it to sleep.
func SleepDue(w workspace.Workspace, standby time.Duration) time.Time {
	switch {
	case w.Phase != workspace.PhaseRunning || w.Deleted():
		return time.Time{}
	case w.Busy != nil || !w.SleepAt.IsZero():
		return w.SleepAt
	case standby <= 0:
		return time.Time{}
	}
	return latest(unusedSince(w).Add(standby), w.KeepAwakeUntil)
}

func latest(first time.Time, others ...time.Time) time.Time {
	for _, t := range others {
		if t.After(first) {
			first = t
		}
	}
	return first
}

// running says what keeps a running workspace awake, what wakes it if it dozes, and when it goes to sleep.
func running(now time.Time, w workspace.Workspace, d Delays) []Statement {
	var out []Statement
	if w.KeepAwakeUntil.After(now) {
		out = append(out, timed("KeptAwake", w.KeepAwakeUntil, "explain.next.kept_awake"))
	}
	if w.Dozes() {
		out = append(out, Statement{Code: "Wakes", Text: words.Of("explain.next.wakes", nil)})
	}
	due := SleepDue(w, d.Standby)
	switch {
	case w.Busy != nil:
		key := "explain.busy." + w.Busy.Reason
		if !words.Has(key) {
			key = "explain.busy.unknown"
		}
		text := since(words.Of(key, nil), w.Busy.Since)
		out = append(out, Statement{Code: w.Busy.Reason, Since: w.Busy.Since, Text: text, Detail: w.Busy.Detail})
		if !due.IsZero() { // although it works
			out = append(out, ends("Sleeps", now, due, d, "explain.next.capped", "explain.next.capped"))
		} else if d.WorkCap > 0 {
			out = append(out, ends("WorkCap", now, unusedSince(w).Add(d.WorkCap), d, "explain.next.work_cap",
				"explain.next.work_cap"))
		}
	case !due.IsZero():
		out = append(out, doze(now, w, d, due)...)
		out = append(out, ends("Sleeps", now, due, d, "explain.next.sleeps", "explain.next.sleeps_soon"))
	}
	if w.PageActivity == workspace.PageTraffic {
		out = append(out, Statement{Code: "TrafficCounts", Text: words.Of("explain.next.traffic", nil)})
	}
	return out
}

// afterDeletion explains until when a deletion can be undone, which files are removed, and when.
func afterDeletion(w workspace.Workspace, d Delays) []Statement {
	if !w.CollectedAt.IsZero() {
		return []Statement{{
			Code: "Collected", Since: w.CollectedAt, Text: words.Of("explain.next.collected", words.Values{
				"At": clock(w.CollectedAt),
			}),
		}}
	}
	if w.DeleteNow {
		return []Statement{{Code: "GivenUp", Text: words.Of("explain.next.given_up", nil)}}
	}
	if d.KeepDeleted <= 0 || w.Waiting != nil && w.Waiting.Reason == workspace.WaitKeptUntilGivenUp {
		return nil
	}
	end := w.DeletedAt.Add(d.KeepDeleted)
	return []Statement{
		timed("Undeletable", end, "explain.next.undeletable"),
		timed("FilesDeleted", end, "explain.next.files_deleted"),
	}
}
