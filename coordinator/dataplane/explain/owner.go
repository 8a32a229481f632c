package explain

import (
	"maps"
	"slices"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// OwnersView returns the row as its owner may see it: without the messages of servers.
func OwnersView(w workspace.Workspace) workspace.Workspace {
	if w.ErrorReason != "" {
		w.ErrorMessage = Failed(w.ErrorReason).String()
	}
	if w.Waiting != nil {
		waiting := *w.Waiting
		waiting.Message = ownersMessage(waiting)
		w.Waiting = &waiting
	}
	w.Conditions = maps.Clone(w.Conditions)
	for name, c := range w.Conditions {
		c.Message = ""
		w.Conditions[name] = c
	}
	return w
}

// OwnersHistory does the same for transitions.
func OwnersHistory(history []store.Transition) []store.Transition {
	out := make([]store.Transition, len(history))
	for i, t := range history {
		switch t.Kind {
		case store.KindError:
			t.Message = Failed(workspace.ErrorReason(t.New)).String()
		case store.KindReverted:
			if t.Message != "" {
				t.Message = words.Of("explain.archive.revert_failed", nil).String()
			}
		case store.KindWaiting:
			if t.New != "" {
				t.Message = ownersMessage(workspace.Waiting{Reason: t.New, Message: t.Message})
			}
		}
		out[i] = t
	}
	return out
}

// ForOwner returns the explanation as the workspace's owner may see it.
func (e Explanation) ForOwner() Explanation {
	e.Why.Detail = ""
	if e.Waiting != nil {
		w := *e.Waiting
		if ownersMessage(w.of) != w.Detail {
			w.Detail = changed(w.of).String() // the rest would repeat the text
		}
		w.Remedy = remedy(w.of, ownersAdvice(aboutWaits, w.Code).Remedy)
		e.Waiting = &w
	}
	failures := make([]Failure, len(e.Errors))
	for i, f := range e.Errors {
		advice := ForOwner(workspace.ErrorReason(f.Code))
		f.Text, f.Detail, f.Remedy = since(advice.Meaning, f.Since), "", advice.Remedy
		failures[i] = f
	}
	e.Errors = failures
	e.Archive = slices.Clone(e.Archive)
	for i, s := range e.Archive {
		if s.Code == "RevertFailed" {
			e.Archive[i].Detail = ""
		}
	}
	return e
}
