package progress

import (
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Failure is why a workspace cannot be opened, for its owner.
type Failure struct {
	Heading words.Text            `json:"heading"`
	Remedy  words.Text            `json:"remedy"`
	Reason  workspace.ErrorReason `json:"reason"`
	// Action is what the owner can do first, as the remedy says.
	Action Action `json:"action"`
	// Detail is Why for programs.
	Detail string `json:"detail,omitempty"`
	// Why is the reason and its meaning.
	Why words.Text `json:"-"`
	// Step is the one that failed, nil if the reason does not tell. Only a page shows it.
	Step *Step `json:"-"`
}

// Action is what an owner can do first about a failure. Nothing is tried again before an administrator recovers the
// workspace, except for its image.
type Action string

const (
	ChooseImage       Action = "image"         // choose another image, or try the same one again
	TellAdministrator Action = "administrator" // tell one, who can recover it
)

// FailureOf returns what happened to a workspace in ERROR, and what to do.
func FailureOf(st *route.State) *Failure {
	reason, name := st.Route.ErrorReason, st.Route.Name
	// The messages of servers are for administrators.
	why := words.Of("problem.workspace.failed", words.Values{
		"Reason": string(reason), "Meaning": explain.ForOwner(reason).Meaning,
	})
	f := &Failure{
		Heading: words.Of("wake.failed.heading", words.Values{"Name": name}),
		Remedy:  explain.Failed(reason),
		Reason:  reason,
		Action:  TellAdministrator,
		Detail:  why.String(),
		Why:     why,
	}
	if reason == workspace.ReasonImagePullFailed {
		f.Action = ChooseImage
	}
	if s, ok := failedSteps[reason]; ok {
		f.Step = &Step{Stage: s, State: stepFailed, Text: s.text()}
	}
	return f
}

// failedSteps tell which step of a wake-up fails with a reason.
var failedSteps = map[workspace.ErrorReason]Stage{
	workspace.ReasonImagePullFailed:  StagePulling,
	workspace.ReasonArchiveCorrupted: StageRestoring,
}
