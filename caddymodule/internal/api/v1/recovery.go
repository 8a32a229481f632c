package v1

import (
	"slices"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Recoveries is the result of recovering several workspaces, as programs see it.
type Recoveries struct {
	Recovered []workspace.ID   `json:"recovered"`
	Failed    []FailedRecovery `json:"failed"`
}

// FailedRecovery is a workspace that was not recovered, and why.
type FailedRecovery struct {
	ID      workspace.ID     `json:"id"`
	Problem *problem.Problem `json:"problem"`
}

// RecoveriesOf returns the result of [service.Service.RecoverAll] as programs see it, with the problems in a
// language.
func RecoveriesOf(recovered []workspace.ID, failed map[workspace.ID]error, language string) Recoveries {
	r := Recoveries{append([]workspace.ID{}, recovered...), make([]FailedRecovery, 0, len(failed))}
	for id, err := range failed {
		r.Failed = append(r.Failed, FailedRecovery{id, problem.Of(err).In(language)})
	}
	slices.SortFunc(r.Failed, func(a, b FailedRecovery) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return r
}
