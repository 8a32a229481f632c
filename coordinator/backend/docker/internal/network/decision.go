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

// decision remembers that an engine can have the rules: they have stood there once. It is a volume
// without content, so it is where the engine keeps its data and goes with that. For another engine,
// or one with another data folder, it is decided anew. Where it is lost, the next time that the
// rules stand makes it again.
type decision struct {
	api    *engine.Client
	name   string
	labels map[string]string
}

func newDecision(api *engine.Client, o spec.Options) decision {
	return decision{api, "codehub_egress-" + o.Installation, o.HelperLabels(spec.KindDecision)}
}

// made reports whether it is remembered.
func (d decision) made(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	v, err := d.api.VolumeInspect(ctx, d.name)
	switch {
	case errdefs.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, engine.Wrap("looking whether this engine has had the egress rules", err)
	}
	return maps.Equal(v.Labels, d.labels), nil
}

// make remembers it. The engine does nothing if the volume exists.
func (d decision) make(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	_, err := d.api.VolumeCreate(ctx, volume.CreateOptions{Name: d.name, Driver: "local", Labels: d.labels})
	return engine.Wrap("remembering that this engine has had the egress rules", err)
}

// forget forgets it.
func (d decision) forget(ctx context.Context) error {
	if made, err := d.made(ctx); err != nil || !made {
		return err
	}
	err := d.api.VolumeRemove(ctx, d.name, false)
	if errdefs.IsNotFound(err) {
		return nil
	}
	return engine.Wrap("forgetting that this engine has had the egress rules", err)
}

// explained reports whether an error says itself what is waited for, and nothing about the rules.
func explained(err error) bool {
	var missing *backend.MissingImageError
	var pending *workspace.PendingError
	return errors.As(err, &missing) || errors.As(err, &pending) ||
		workspace.ReasonOf(err) == workspace.ReasonUnreachable
}

// follows is what follows from an error of making the rules. It is nil where workspaces start
// without them. Then the engine itself has said that it cannot have them, the setting leaves it to
// us, and they have never stood there. Everything else keeps a workspace from starting, until it
// passes (SPEC 3). What the caller knows better what to do about stays as it is: a missing image,
// an engine that does not answer.
func (g *Guard) follows(ctx context.Context, failure error) error {
	if ctx.Err() != nil || explained(failure) {
		return fmt.Errorf("making the egress rules: %w", failure)
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
