// Package explain explains the state of a workspace in words: why it has its phase, what it waits for, and who asked
// for it. It also says what comes next and when, what went wrong, and what can be done. It chooses among the texts of
// package words, and owns nothing else. It is a pure function of a row, its history, the delays of the other
// components, and the time. It must not perform I/O, read the clock or decide anything.
package explain

import (
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Delays are the settings of other components on which the future of a workspace depends. A zero value means that a
// delay is not known; then no time is named.
type Delays struct {
	// Standby and Archive are the TTLs, checked every TTLInterval (package ttl).
	Standby, Archive, TTLInterval time.Duration
	// Doze is the TTL after which a workspace dozes; 0 if none does.
	Doze time.Duration
	// WorkCap is how long work may keep an unused workspace awake (package work).
	WorkCap time.Duration
	// KeepDeleted is how long the files of a deleted workspace stay (package gc).
	KeepDeleted time.Duration
	// Timeouts limit the time of each operation, and MaxRetry limits its failures. WaitLimit limits a wait for an
	// object store that refuses requests (package reconcile).
	Timeouts  map[workspace.Operation]time.Duration
	MaxRetry  int
	WaitLimit time.Duration
	// HomeWarn is the size in bytes at which the owner of a home is told that it is large.
	HomeWarn int64
}

// Explanation is what there is to say about a workspace at one time. Codes and times
// are for programs, texts for people.
type Explanation struct {
	WorkspaceID  workspace.ID           `json:"workspace_id"`
	Phase        workspace.Phase        `json:"phase"`
	Operation    workspace.Operation    `json:"operation"`
	DesiredState workspace.DesiredState `json:"desired_state"`
	// Why says why the workspace has its phase, or what is being done with it.
	Why Statement `json:"why"`
	// Waiting says why it makes no progress; nil if it waits for nothing.
	Waiting *Wait `json:"waiting,omitempty"`
	// Home says how much its home holds; nil while that is not known.
	Home *Statement `json:"home,omitempty"`
	// Next says what comes next, the soonest first.
	Next []Statement `json:"next"`
	// Archive says what state the current archive is in, and what became of the last request to go back to an older
	// one.
	Archive []Statement `json:"archive"`
	// Asked says who or what last asked for the desired state; nil if that is not known.
	Asked *Request `json:"asked,omitempty"`
	// Errors are the last failures, the newest first. Current is false for a failure that is over.
	Errors []Failure `json:"errors"`
}

// Statement is one part of an explanation.
type Statement struct {
	// Code is a CamelCase word for programs, or the phase, operation or reason that the
	// statement is about.
	Code string `json:"code"`
	// Since is when it began, At when it happens or ends; zero when there is no such time.
	Since time.Time `json:"since,omitzero"`
	At    time.Time `json:"at,omitzero"`
	// Text is a sentence. Detail is the message of the component that knows more, in English.
	Text   words.Text `json:"text"`
	Detail string     `json:"detail,omitempty"`
}

// Wait is what a workspace waits for and what to do about it. Its Code is the reason,
// its Detail the message.
type Wait struct {
	Statement
	Remedy words.Text `json:"remedy"`

	of workspace.Waiting
}

// Request says who asked for something, and by what means.
type Request struct {
	Statement
	// Cause is "api", "gateway", "ttl", "disk", "memory", "limits", "cli"; UserID and Username are empty when no user
	// asked.
	Cause    string `json:"cause"`
	UserID   string `json:"user_id,omitempty"`
	Username string `json:"username,omitempty"`
}

// Failure is an error and what to do about it. Its Code is the reason, its Detail the
// message.
type Failure struct {
	Statement
	// Count is how many times in a row it was recorded.
	Count int `json:"count"`
	// Current is set while the workspace is in this error or retries after it.
	Current bool       `json:"current"`
	Remedy  words.Text `json:"remedy"`
}

// Explain explains w at the time now. history contains its last transitions, the newest first; the more of them it
// contains, the more the explanation can say about the requester and about older errors.
func Explain(now time.Time, w workspace.Workspace, d Delays, history []store.Transition) Explanation {
	e := Explanation{
		WorkspaceID: w.ID, Phase: w.Phase, Operation: w.Operation, DesiredState: w.DesiredState,
		Why: why(w), Asked: asked(history), Errors: failures(w, history), Archive: archiveState(now, w),
	}
	if w.Waiting != nil {
		advice := adviceOnWait(w.Waiting.Reason)
		e.Waiting = &Wait{
			Statement: Statement{
				Code: w.Waiting.Reason, Since: w.Waiting.Since, Text: since(meaning(*w.Waiting, advice.Meaning), w.Waiting.Since),
				Detail: w.Waiting.Message,
			},
			Remedy: remedy(*w.Waiting, advice.Remedy),
			of:     *w.Waiting,
		}
	}
	e.Home = home(w.Home, d.HomeWarn)
	e.Next = next(now, w, d, e)
	return e
}

// why says what the phase means, or what the operation in progress does.
func why(w workspace.Workspace) Statement {
	switch {
	case w.Operation != workspace.OpNone:
		return Statement{
			Code: string(w.Operation), Since: w.OpStartedAt,
			Text: since(words.Of("explain.operation."+string(w.Operation), nil), w.OpStartedAt),
		}
	case w.Phase == workspace.PhaseError && w.ErrorReason == "":
		return Statement{Code: "Recovered", Since: w.PhaseChangedAt, Text: words.Of("explain.recovered", nil)}
	case w.Phase == workspace.PhaseError:
		advice := adviceOnError(w.ErrorReason)
		return Statement{
			Code: string(w.ErrorReason), Since: w.PhaseChangedAt, Text: since(advice.Meaning, w.PhaseChangedAt),
			Detail: w.ErrorMessage,
		}
	case w.Dozes():
		return Statement{
			Code: "Dozing", Since: w.DozeAt, Text: since(words.Of("explain.dozing", nil), w.DozeAt),
		}
	case w.Phase == workspace.PhaseDeleting && w.AwaitsGC:
		return Statement{
			Code: "AwaitsGC", Since: w.DeletedAt, Text: since(words.Of("explain.awaits_gc", nil), w.DeletedAt),
		}
	}
	return Statement{
		Code: string(w.Phase), Since: w.PhaseChangedAt, Text: since(words.Of("explain.phase."+string(w.Phase), nil),
			w.PhaseChangedAt),
	}
}

// asked finds the newest transition that a person or a component asked for.
func asked(history []store.Transition) *Request {
	for _, t := range history {
		key := "explain.request." + string(t.Kind)
		if !words.Has(key) {
			continue
		}
		by := words.Same(t.Username)
		switch {
		case t.Username == "" && t.Cause == string(audit.CLI):
			by = words.Of("explain.by.administrator", nil)
		case t.Username == "":
			by = words.Of("explain.by.system", nil)
		}
		through := words.Same(t.Cause)
		if cause := "explain.cause." + t.Cause; words.Has(cause) {
			through = words.Of(cause, nil)
		}
		value := words.Same(t.New)
		if state := "explain.asked_for." + t.New; words.Has(state) {
			value = words.Of(state, nil)
		}
		text := words.Of(key, words.Values{"At": clock(t.At), "By": by, "Through": through, "Value": value})
		return &Request{
			Statement: Statement{Code: string(t.Kind), Since: t.At, Text: text, Detail: t.Message},
			Cause:     t.Cause, UserID: t.UserID, Username: t.Username,
		}
	}
	return nil
}

// maxFailures is how many failures an explanation lists.
const maxFailures = 5

// failures lists the current error and those in the history. Successive attempts that failed for the same reason count
// as one failure.
func failures(w workspace.Workspace, history []store.Transition) []Failure {
	out := []Failure{}
	add := func(f Failure) {
		advice := adviceOnError(workspace.ErrorReason(f.Code))
		f.Text, f.Remedy = since(advice.Meaning, f.Since), advice.Remedy
		out = append(out, f)
	}
	for _, t := range history {
		if t.Kind != store.KindError {
			continue
		}
		if n := len(out); n > 0 && out[n-1].Code == t.New {
			out[n-1].Count++
			continue
		}
		if len(out) == maxFailures {
			break
		}
		add(Failure{Statement: Statement{Code: t.New, Since: t.At, Detail: t.Message}, Count: 1})
	}
	if w.ErrorReason == "" {
		return out
	}
	// The row still has its error if the history was trimmed.
	if len(out) == 0 || out[0].Code != string(w.ErrorReason) {
		older := out
		out = nil
		add(Failure{
			Statement: Statement{Code: string(w.ErrorReason), Since: w.PhaseChangedAt, Detail: w.ErrorMessage},
			Count:     max(w.ErrorCount, 1),
		})
		out = append(out, older[:min(len(older), maxFailures-1)]...)
	}
	out[0].Current = true
	return out
}
