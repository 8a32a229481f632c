package sampler

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/internal/glance"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Stats returns the resources that a workspace's container uses. It runs one small command in the container, because a
// cluster may lack the metrics API, and the gateway has no right to read nodes. If the container does not run, the
// error is [backend.ErrNotFound].
func Stats(ctx context.Context, api *cluster.Client, p *corev1.Pod) (backend.Stats, error) {
	var s backend.Stats
	if running(p) == nil {
		return s, fmt.Errorf("pod %s: %w", p.Name, backend.ErrNotFound)
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	s.At = time.Now()
	out := backend.Limited{Max: maxLook}
	if _, err := api.Exec(ctx, p.Name, spec.Container, backend.Command{Words: glance.Command}, &out, nil); err != nil {
		return s, cluster.Wrap("reading what pod "+p.Name+" uses", err)
	}
	seen := glance.Parse(out.Bytes())
	s.CPU, s.Memory = seen.CPU, seen.Memory
	s.Processes, s.Ports, s.Local = seen.Processes, seen.Ports, seen.Local
	for i := range p.Spec.Containers {
		if c := &p.Spec.Containers[i]; c.Name == spec.Container {
			s.Cores = c.Resources.Limits.Cpu().AsApproximateFloat64()
			s.MemoryLimit = c.Resources.Limits.Memory().Value()
		}
	}
	return s, nil
}
