package network

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// decision records that an engine supports the rules, because they were in force there once. It is an empty volume: it
// is part of the engine's data and disappears with it. For another engine, or another data folder, the decision is made
// anew. If the volume is lost, it is created again the next time the rules are in force.
type decision struct {
	api    *engine.Client
	name   string
	labels map[string]string
}

func newDecision(api *engine.Client, o spec.Options) decision {
	return decision{api, "codehub_egress-" + o.Installation, o.HelperLabels(spec.KindDecision)}
}

// made reports whether the decision is recorded.
func (d decision) made(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	v, err := d.api.VolumeInspect(ctx, d.name)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, engine.Wrap("reading the decision about the egress rules", err)
	}
	return maps.Equal(v.Labels, d.labels), nil
}

// make records it. The engine does nothing if the volume exists.
func (d decision) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	_, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: d.name, Driver: "local", Labels: d.labels})
	return engine.Wrap("recording the decision about the egress rules", err)
}

// forget removes the record.
func (d decision) forget(ctx context.Context) error {
	if made, err := d.made(ctx); err != nil || !made {
		return err
	}
	err := d.api.VolumeRemove(ctx, d.name, false)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return engine.Wrap("removing the decision about the egress rules", err)
}

// explained reports whether an error names its own remedy and does not concern the rules.
func explained(err error) bool {
	var missing *backend.MissingImageError
	var pending *workspace.PendingError
	return errors.As(err, &missing) || errors.As(err, &pending) ||
		workspace.ReasonOf(err) == workspace.ReasonUnreachable
}

// follows decides what an error from applying the rules means for workspaces. It returns nil if workspaces start
// without the rules. They do if the engine itself reports that it does not support the rules, the setting leaves the
// decision to this program, and the rules were never in force there. As long as any other error lasts, no workspace
// starts (SPEC 3). Errors with a remedy of their own stay unchanged: a missing image, an engine that does not answer.
func (g *Guard) follows(ctx context.Context, failure error) error {
	if ctx.Err() != nil || explained(failure) {
		return fmt.Errorf("applying the egress rules: %w", failure)
	}
	why := "the setting \"egress enforce\" is require"
	if g.opts.Enforce == egress.EnforceAuto {
		why = "this engine has not said that it cannot have them"
		if errors.Is(failure, contract.ErrUnable) {
			made, err := g.decision.made(ctx)
			if err != nil {
				return err
			}
			if !made {
				return nil
			}
			why = "they have stood on this engine before"
		}
	}
	err := fmt.Errorf("the firewall rules about what workspaces and storage jobs reach cannot be made, and nothing "+
		"starts without them, because %s: %w", why, failure)
	return &workspace.PendingError{
		Pending: workspace.Pending{Reason: workspace.WaitEgressRules, Message: err.Error()}, Err: err,
	}
}
