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
	// Action is the owner's first action according to the remedy.
	Action Action `json:"action"`
	// Detail is the same as Why, but for programs.
	Detail string `json:"detail,omitempty"`
	// Why is the reason and its meaning.
	Why words.Text `json:"-"`
	// Step is the step that failed, nil if the reason does not tell which. Only a page shows it.
	Step *Step `json:"-"`
}

// Action is an owner's first action after a failure. Only a failed image is retried before an administrator
// recovers the workspace.
type Action string

const (
	ChooseImage       Action = "image"         // choose another image, or try the same one again
	TellAdministrator Action = "administrator" // tell one, who can recover it
)

// FailureOf returns the failure of a workspace in ERROR, and the remedy.
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

// failedSteps maps a reason to the failed step of a wake-up.
var failedSteps = map[workspace.ErrorReason]Stage{
	workspace.ReasonImagePullFailed:  StagePulling,
	workspace.ReasonArchiveCorrupted: StageRestoring,
}
