package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sandbox"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// errUntried means that there is no program to freeze for the engine's processor.
var errUntried = errors.New("there is no program for the processor of the engine")

// Freezes finds out whether the engine can freeze and thaw a container, by trying it with a container that only waits
// and has no network. If the engine cannot, refused is its reason. err means that the answer is unknown.
func (d *Doctor) Freezes(ctx context.Context) (refused, err error) {
	image, err := d.api.ImageInspect(ctx, d.opts.JobImage)
	if errdefs.IsNotFound(err) {
		return nil, &backend.MissingImageError{Image: d.opts.JobImage, Jobs: true}
	}
	if err != nil {
		return nil, engine.Wrap("inspecting image "+d.opts.JobImage, err)
	}
	program, err := sandbox.Program(image.Architecture)
	if err != nil {
		return nil, err
	}
	if program == nil {
		return nil, errUntried
	}
	made, err := d.api.ContainerCreate(ctx, &container.Config{
		Image: d.opts.JobImage, Entrypoint: []string{spec.PausePath}, User: "65534:65534", Labels: d.opts.HelperLabels(spec.KindEgress),
	}, &container.HostConfig{
		NetworkMode: "none", CapDrop: []string{"ALL"}, SecurityOpt: []string{"no-new-privileges"}, LogConfig: container.LogConfig{Type: "none"},
	}, nil, nil, "")
	if err != nil {
		return nil, engine.Wrap("creating a container", err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), engine.AnswerLimit)
		defer cancel()
		gone := d.api.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true})
		err = errors.Join(err, engine.Wrap("removing a container", gone))
	}()
	if err := d.api.CopyToContainer(ctx, made.ID, "/", program, container.CopyToContainerOptions{}); err != nil {
		return nil, engine.Wrap("putting a program into a container", err)
	}
	if err := d.api.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return nil, engine.Wrap("starting a container", err)
	}
	refused = engine.Wrap("freezing a container", d.api.ContainerPause(ctx, made.ID))
	if refused == nil {
		refused = engine.Wrap("thawing a container", d.api.ContainerUnpause(ctx, made.ID))
	}
	if refused != nil && !engine.Answered(ctx, refused) {
		return nil, refused
	}
	return refused, nil
}

func (c checks) checkFreezing(ctx context.Context) ([]check.Finding, error) {
	if !c.Dozes {
		return []check.Finding{check.OK("not tried: no workspace dozes")}, nil
	}
	refused, err := c.Freezes(ctx)
	var missing *backend.MissingImageError
	switch {
	case errors.Is(err, errUntried):
		return []check.Finding{check.OK("not tried: %v", err)}, nil
	case errors.As(err, &missing):
		return []check.Finding{check.Warning("docker pull "+missing.Image+", or make images",
			"without image %s this command cannot try to freeze a container", missing.Image)}, nil
	case err != nil:
		return nil, fmt.Errorf("trying whether this engine freezes containers: %w", err)
	case refused != nil:
		return []check.Finding{check.Warning("set ttl doze 0; or use an engine that can (a rootless one needs cgroup v2)",
			"this engine cannot freeze containers, so that no workspace dozes: %v", refused)}, nil
	}
	return []check.Finding{check.OK("this engine can freeze and thaw containers")}, nil
}
