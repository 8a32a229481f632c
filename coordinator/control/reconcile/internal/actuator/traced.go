package actuator

import (
	"context"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Traced returns actuators that record each call in the trace to which the call's context belongs.
func Traced(a backend.Actuators, t *tracing.Tracer) backend.Actuators { return traced{a, t} }

type traced struct {
	actuators backend.Actuators
	tracer    *tracing.Tracer
}

func (t traced) call(ctx context.Context, name string, call func(context.Context) error) error {
	ctx, span := t.tracer.Within(ctx, tracing.Backend+name)
	err := call(ctx)
	tracing.End(span, err)
	return err
}

func (t traced) Start(ctx context.Context, spec backend.StartSpec) error {
	return t.call(ctx, "Start", func(ctx context.Context) error { return t.actuators.Start(ctx, spec) })
}

func (t traced) Delete(ctx context.Context, id workspace.ID) error {
	return t.call(ctx, "Delete", func(ctx context.Context) error { return t.actuators.Delete(ctx, id) })
}

func (t traced) Provision(ctx context.Context, spec backend.VolumeSpec) error {
	return t.call(ctx, "Provision", func(ctx context.Context) error { return t.actuators.Provision(ctx, spec) })
}

func (t traced) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	return t.call(ctx, "DeleteVolume", func(ctx context.Context) error { return t.actuators.DeleteVolume(ctx, id, opID) })
}

func (t traced) StartJob(ctx context.Context, spec backend.JobSpec) error {
	return t.call(ctx, "StartJob", func(ctx context.Context) error { return t.actuators.StartJob(ctx, spec) })
}

func (t traced) DeleteJobs(ctx context.Context, id workspace.ID) error {
	return t.call(ctx, "DeleteJobs", func(ctx context.Context) error { return t.actuators.DeleteJobs(ctx, id) })
}
