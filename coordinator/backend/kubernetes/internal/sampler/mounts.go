package sampler

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/mount"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// mountsLimit bounds the time to read the mounts.
const mountsLimit = 5 * time.Second

// ErrNoLook means that the mounts of the container cannot be read, and that another attempt would fail, too.
var ErrNoLook = errors.New("the container cannot be looked into")

// Mounts returns the mounts inside the workspace's home that its Pod did not make. For this it runs one small command
// in the container. The error is [ErrNoLook] if the image lacks the command, or if the cluster forbids exec.
func Mounts(ctx context.Context, api *cluster.Client, p *corev1.Pod) (mount.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, mountsLimit)
	defer cancel()
	out := backend.Limited{Max: maxLook}
	code, err := api.Exec(ctx, p.Name, spec.Container, backend.Command{Words: mount.Command}, &out, nil)
	var failed *cluster.NotStartedError
	switch {
	case errors.As(err, &failed) && status.LacksCommand(failed.Message), apierrors.IsForbidden(err), err == nil && code != 0,
		len(out.Bytes()) > mount.MaxOutput:
		return mount.Found{}, ErrNoLook
	case err != nil:
		return mount.Found{}, cluster.Wrap("reading the mounts of pod "+p.Name, err)
	}
	return mount.Inside(out.Bytes(), spec.MountsOf(p)), nil
}
