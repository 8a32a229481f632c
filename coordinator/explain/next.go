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
	case w.Waiting != nil:
		say("TriedAgain", time.Time{}, triedAgainText)
		if limit := d.WaitLimit; w.Waiting.Reason == workspace.WaitStoreRefuses && limit > 0 && !w.Deleted() && !w.Conditions.True(workspace.VolumeReady) {
			say("WaitEnds", w.Waiting.Since.Add(limit), waitEndsText)
		}
	case w.Deleted():
		if !w.AwaitsGC {
			say("Step", time.Time{}, stepText, Text{"DELETED", "DELETED"})
		}
	case string(w.Phase) != string(w.DesiredState):
		say("Step", time.Time{}, stepText, Text{string(w.DesiredState), string(w.DesiredState)})
	default:
		out = append(out, converged(now, w, d))
	}
	if w.Deleted() {
		out = append(out, afterDeletion(w, d)...)
	}
	return out
}

// duringOperation says when a failed attempt is repeated, and when the operation ends
// in an error if it gets nowhere.
func duringOperation(now time.Time, w workspace.Workspace, d Delays, e Explanation) []Statement {
	var out []Statement
	if w.ErrorCount > 0 && len(e.Errors) > 0 {
		retry := e.Errors[0].Since.Add(longestPause(w.ErrorCount))
		out = append(out, Statement{Code: "Retry", At: retry, Text: retryText.with(at(retry), number(w.ErrorCount), number(d.MaxRetry))})
	}
	limit := d.Timeouts[w.Operation]
	if limit > 0 && !w.OpStartedAt.IsZero() {
		end := w.OpStartedAt.Add(limit)
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
func converged(now time.Time, w workspace.Workspace, d Delays) Statement {
	var code string
	var since time.Time
	var ttl time.Duration
	var text, soon Text
	switch w.Phase {
	case workspace.PhaseRunning:
		code, ttl, text, soon = "Sleeps", d.Standby, sleepsText, sleepsSoonText
		since = w.PhaseChangedAt
		if w.LastAccessAt.After(since) {
			since = w.LastAccessAt
		}
	case workspace.PhaseStandby:
		code, ttl, text, soon = "Archived", d.Archive, archivedText, archivedSoonText
		since = w.PhaseChangedAt
	}
	if ttl <= 0 {
		return Statement{Code: "Stays", Text: staysText}
	}
	t := since.Add(ttl)
	if !t.After(now) {
		// It is due: the next check finds it, unless something works in it.
		t, text = now.Add(d.TTLInterval), soon
	}
	return Statement{Code: code, At: t, Text: text.with(at(t))}
}

// afterDeletion says until when a deletion can be undone, and when which files go.
func afterDeletion(w workspace.Workspace, d Delays) []Statement {
	if !w.CollectedAt.IsZero() {
		return []Statement{{Code: "Collected", Since: w.CollectedAt, Text: collectedText.with(at(w.CollectedAt))}}
	}
	if w.DeleteNow {
		return []Statement{{Code: "GivenUp", Text: givenUpText}}
	}
	if d.KeepDeleted <= 0 {
		return nil
	}
	end := w.DeletedAt.Add(d.KeepDeleted)
	return []Statement{
		{Code: "Undeletable", At: end, Text: undeletableText.with(at(end))},
		{Code: "FilesDeleted", At: end, Text: filesDeletedText.with(at(end))},
	}
}
