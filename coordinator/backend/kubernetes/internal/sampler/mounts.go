package sampler

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/mount"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// mountsLimit is how long it may take to read the mounts.
const mountsLimit = 5 * time.Second

// ErrNoLook says that nobody can look into the container, and that another attempt does not change that.
var ErrNoLook = errors.New("the container cannot be looked into")

// Mounts returns what is mounted inside the home of the workspace beside what its Pod mounts there, by one small command
// in its container. The error is [ErrNoLook] if the image has not the command, or the cluster allows none.
func Mounts(ctx context.Context, api *cluster.Client, p *corev1.Pod) (mount.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, mountsLimit)
	defer cancel()
	var out limited
	code, err := api.Exec(ctx, p.Name, spec.Container, backend.Command{Words: mount.Command}, &out, nil)
	var failed *cluster.NotStartedError
	switch {
	case errors.As(err, &failed) && lacks(failed.Message), apierrors.IsForbidden(err), err == nil && code != 0,
		len(out.Bytes()) > mount.MaxOutput:
		return mount.Found{}, ErrNoLook
	case err != nil:
		return mount.Found{}, cluster.Wrap("reading the mounts of pod "+p.Name, err)
	}
	return mount.Inside(out.Bytes(), spec.MountsOf(p)), nil
}

// lacks reports whether a runtime says that the image has not the command.
func lacks(message string) bool {
	message = strings.ToLower(message)
	return strings.Contains(message, "executable file not found") || strings.Contains(message, "no such file or directory") ||
		strings.Contains(message, "permission denied")
}
