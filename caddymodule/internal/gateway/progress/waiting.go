package progress

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Waiting is the reason why a workspace makes no progress, for the waiting person.
type Waiting struct {
	// Reason is that of [workspace.Waiting], which programs may compare.
	Reason string `json:"reason"`
	// Text is the sentence that the wake page shows. In JSON its languages are fields of the wait.
	Text words.Text `json:"-"`
	// Since is when the wait for this reason began; zero when it is not known.
	Since time.Time `json:"since,omitzero"`
	// Before is the number of others before it in a queue; from 10 on, there may be more. It is absent when the
	// workspace is next.
	Before int `json:"before,omitempty"`

	of workspace.Waiting
}

// MarshalJSON puts the languages of the text among the fields.
func (w Waiting) MarshalJSON() ([]byte, error) {
	type fields Waiting
	return words.Inline(fields(w), w.Text)
}

// WaitingFor returns why the workspace waits in the state st, or nil if no reason is known.
func WaitingFor(st *route.State) *Waiting {
	w := st.Route.Waiting
	switch {
	case st.Ready():
		return nil
	case w != nil:
	case st.Route.Phase == workspace.PhaseRunning && st.Route.Endpoint == "" && st.Route.Operation == workspace.OpNone:
		w = &workspace.Waiting{Reason: workspace.WaitPaused}
	default:
		return nil
	}
	return &Waiting{Reason: w.Reason, Text: explain.Waits(*w, false), Since: w.Since, Before: w.Before, of: *w}
}
