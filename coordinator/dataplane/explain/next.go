package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// next says what comes next: what ends the present state by itself, and what becomes
// of a deleted workspace.
func next(now time.Time, w workspace.Workspace, d Delays, e Explanation) []Statement {
	out := []Statement{}
	say := func(code string, t time.Time, text Text, values ...Text) {
		out = append(out, Statement{Code: code, At: t, Text: text.with(append([]Text{at(t)}, values...)...)})
	}
	switch {
	case w.Phase == workspace.PhaseDeleted:
		say("Nothing", time.Time{}, nothingText)
		return out
	case w.Phase == workspace.PhaseError && w.ErrorReason == "":
		say("Observed", time.Time{}, observedText)
	case w.Phase == workspace.PhaseError && !w.Deleted():
		say("NeedsRecovery", time.Time{}, needsRecoveryText)
	case w.Operation != workspace.OpNone:
		out = append(out, duringOperation(now, w, d, e)...)
	case w.Waiting != nil && w.Waiting.Reason == workspace.WaitKeptUntilGivenUp:
		say("Kept", time.Time{}, keptText)
	case w.Waiting.Unlimited():
		say("Waits", time.Time{}, waitsText)
	case w.Waiting != nil:
		say("TriedAgain", time.Time{}, triedAgainText)
		if limit := d.WaitLimit; w.Waiting.Reason == workspace.WaitStoreRefuses && limit > 0 && !w.Deleted() && !w.Conditions.True(workspace.VolumeReady) {
			say("WaitEnds", w.Waiting.Since.Add(limit), waitEndsText)
		}
	case w.Deleted():
		if !w.AwaitsGC {
			say("Step", time.Time{}, stepText, Text{"DELETED", "DELETED"})
		}
	case string(w.Phase) != string(w.Wanted()):
		say("Step", time.Time{}, stepText, Text{string(w.Wanted()), string(w.Wanted())})
	default:
		out = append(out, converged(now, w, d)...)
	}
	if w.Deleted() {
		out = append(out, afterDeletion(w, d)...)
	}
	return out
}

// duringOperation says how far the operation is, when a failed attempt is repeated, and
// when the operation ends in an error if it gets nowhere.
func duringOperation(now time.Time, w workspace.Workspace, d Delays, e Explanation) []Statement {
	var out []Statement
	if p := w.Progress; p != nil {
		if text := Progress(*p); text.En != "" {
			out = append(out, Statement{Code: "Progress", Since: p.At, Text: progressText.with(text, at(p.At))})
		}
	}
	if w.ErrorCount > 0 && len(e.Errors) > 0 {
		retry := e.Errors[0].Since.Add(longestPause(w.ErrorCount))
		out = append(out, Statement{Code: "Retry", At: retry, Text: retryText.with(at(retry), number(w.ErrorCount), number(d.MaxRetry))})
	}
	limit := d.Timeouts[w.Operation]
	switch {
	case w.Waiting.Unlimited():
		out = append(out, Statement{Code: "Waits", Text: waitsText})
	case limit > 0 && !w.OpStartedAt.IsZero():
		end := w.LimitsBegin().Add(limit)
		text := timesOutText
		if end.Before(now) {
			text = progressesText // or it would have ended
		}
		out = append(out, Statement{Code: "Timeout", At: end, Text: text.with(at(end))})
	}
	return out
}

// longestPause is the longest time between a failure and the next attempt: 1 s, 2 s,
// 4 s … 30 s, and half as much more (SPEC 1, contract 10).
func longestPause(failures int) time.Duration {
	pause := 30 * time.Second
	if failures <= 5 {
		pause = time.Second << max(failures-1, 0)
	}
	return pause * 3 / 2
}

// converged says how long a workspace stays as it is to be, if nobody uses it.
func converged(now time.Time, w workspace.Workspace, d Delays) []Statement {
	switch {
	case w.Phase == workspace.PhaseRunning && d.Standby > 0:
		return running(now, w, d)
	case w.Phase == workspace.PhaseStandby && d.Archive > 0:
		return []Statement{ends("Archived", now, w.PhaseChangedAt.Add(d.Archive), d, archivedText, archivedSoonText)}
	}
	return []Statement{{Code: "Stays", Text: staysText}}
}

// ends says when the state ends. What is due is found by the next check.
func ends(code string, now, t time.Time, d Delays, text, soon Text) Statement {
	if !t.After(now) {
		t, text = now.Add(d.TTLInterval), soon
	}
	return Statement{Code: code, At: t, Text: text.with(at(t))}
}

// running says what keeps a running workspace awake, and when it goes to sleep.
func running(now time.Time, w workspace.Workspace, d Delays) []Statement {
	var out []Statement
	since := w.PhaseChangedAt
	if w.LastAccessAt.After(since) {
		since = w.LastAccessAt
	}
	due := since.Add(d.Standby)
	if w.KeepAwakeUntil.After(now) {
		out = append(out, Statement{Code: "KeptAwake", At: w.KeepAwakeUntil, Text: keptAwakeText.with(at(w.KeepAwakeUntil))})
		if w.KeepAwakeUntil.After(due) {
			due = w.KeepAwakeUntil
		}
	}
	switch {
	case w.Busy != nil:
		text, ok := busyTexts[w.Busy.Reason]
		if !ok {
			text = unknownBusyText
		}
		out = append(out, Statement{Code: w.Busy.Reason, Since: w.Busy.Since, Text: text.since(w.Busy.Since), Detail: w.Busy.Detail})
		if !w.SleepAt.IsZero() { // although it works
			out = append(out, ends("Sleeps", now, w.SleepAt, d, cappedText, cappedText))
		} else if d.WorkCap > 0 {
			out = append(out, ends("WorkCap", now, since.Add(d.WorkCap), d, workCapText, workCapText))
		}
	case !w.SleepAt.IsZero():
		out = append(out, ends("Sleeps", now, w.SleepAt, d, sleepsText, sleepsSoonText))
	default:
		out = append(out, ends("Sleeps", now, due, d, sleepsText, sleepsSoonText))
	}
	if w.PageActivity == workspace.PageTraffic {
		out = append(out, Statement{Code: "TrafficCounts", Text: trafficText})
	}
	return out
}

// afterDeletion says until when a deletion can be undone, and when which files go.
func afterDeletion(w workspace.Workspace, d Delays) []Statement {
	if !w.CollectedAt.IsZero() {
		return []Statement{{Code: "Collected", Since: w.CollectedAt, Text: collectedText.with(at(w.CollectedAt))}}
	}
	if w.DeleteNow {
		return []Statement{{Code: "GivenUp", Text: givenUpText}}
	}
	if d.KeepDeleted <= 0 || w.Waiting != nil && w.Waiting.Reason == workspace.WaitKeptUntilGivenUp {
		return nil
	}
	end := w.DeletedAt.Add(d.KeepDeleted)
	return []Statement{
		{Code: "Undeletable", At: end, Text: undeletableText.with(at(end))},
		{Code: "FilesDeleted", At: end, Text: filesDeletedText.with(at(end))},
	}
}
