package api

import (
	"net/http"
	"slices"

	"go.uber.org/zap"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/workspace"
)

// choiceBody is the choice in the body of a recovery request. A request may also have no body.
type choiceBody struct {
	Choice        textField `json:"choice"`
	Key           textField `json:"key"`
	ReplaceVolume bool      `json:"replace_volume"`
}

// choice returns the choice for the service, which checks it.
func (b choiceBody) choice() (service.Choice, error) {
	kinds := []workspace.RecoveryChoice{
		"", workspace.RecoverRetry, workspace.RecoverVolume, workspace.RecoverArchive, workspace.RecoverEmpty,
	}
	kind := workspace.RecoveryChoice(b.Choice.text)
	if !slices.Contains(kinds, kind) {
		return service.Choice{}, problem.InvalidField("choice", "problem.choice_kind", nil)
	}
	if (kind == workspace.RecoverArchive) != (b.Key.text != "") {
		return service.Choice{}, problem.InvalidField("key", "problem.choice_key", nil)
	}
	return service.Choice{Kind: kind, Key: b.Key.text, ReplaceVolume: b.ReplaceVolume}, nil
}

// recoverWorkspace is POST /workspaces/{id}/recover, for administrators, with an optional choice as
// its body. It clears the error of a workspace and answers with it; the next observation then
// decides its phase (SPEC 3). If its files are in doubt, the answer is 409 with the existing copies
// and the choices (SPEC 12.9).
func (c *call) recoverWorkspace() error {
	var in choiceBody
	if c.r.ContentLength != 0 {
		if err := c.decode(&in); err != nil {
			return err
		}
	}
	choice, err := in.choice()
	if err != nil {
		return err
	}
	return c.sendWorkspace(c.Service.Recover(c.r.Context(), c.actor(), c.id, choice))
}

// recoverWorkspaces is POST /workspaces/recover, for administrators: it recovers all workspaces in
// ERROR with the given reason, each as recoverWorkspace does. The answer has the ids of the workspaces that were
// recovered, and a problem for each of the others.
func (c *call) recoverWorkspaces() error {
	var in struct {
		choiceBody
		Reason string `json:"reason"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	if in.Reason == "" {
		return problem.InvalidField("reason", "problem.error_reason", nil)
	}
	choice, err := in.choice()
	if err != nil {
		return err
	}
	recovered, failed, err := c.Service.RecoverAll(c.r.Context(), c.actor(), workspace.ErrorReason(in.Reason), choice)
	if err != nil {
		return err
	}
	for id, err := range failed {
		if problem.Of(err).Status >= http.StatusInternalServerError {
			c.Logger.Error("a workspace could not be recovered", zap.String(logkey.Workspace, string(id)), zap.Error(err))
		}
	}
	return sendJSON(c.w, http.StatusOK, v1.RecoveriesOf(recovered, failed, site.Language(c.r)))
}
