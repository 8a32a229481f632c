package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/mount"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/sampler"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// While a node does not answer, a look into a container is repeated at this interval and for this long. After that, the
// workspace is used without a look, because in some clusters no command reaches any container.
const (
	lookFor   = 20 * time.Second
	lookEvery = 500 * time.Millisecond
)

// see looks into the running Pod of a workspace for volumes that its image declares inside the home (SPEC 7). If there
// are any, it records them on the claim, removes the Pod and reports the removal: the next Pod mounts folders of the
// home there. It returns the claim's current state. Otherwise it records on the Pod that it has looked.
//
// If this process crashes in between, the Pod is as it was, or the claim already lists the folders that the next Pod
// mounts. No second Pod is removed because of the same folder: if the Pod already mounts the folder and a volume still
// hides it, see returns an error.
func (b *Backend) see(ctx context.Context, p *corev1.Pod, home *corev1.PersistentVolumeClaim) (
	now *corev1.PersistentVolumeClaim, removed bool, err error) {
	image := p.Annotations[spec.AnnotationUnseen]
	found, err := b.mounts(ctx, p)
	if errors.Is(err, backend.ErrNotFound) { // it has ended, and observations show that
		return home, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	known := spec.FoldersOf(home, image)
	all := slices.Concat(known, found.Folders)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > spec.MaxFolders {
		found.Hiding = append(found.Hiding, found.Folders...)
	}
	switch {
	case len(found.Hiding) > 0:
		if err := b.endPod(ctx, p, spec.GraceOf(p)); err != nil {
			return nil, false, err
		}
		return nil, false, hides(image, found.Hiding)
	case len(found.Folders) == 0:
		return home, false, b.seen(ctx, p)
	}
	now, err = object.Patch(ctx, b.api.Claims, "recording the folders of volume "+home.Name, home, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{
			spec.AnnotationFolders: spec.Folders{Image: image, Paths: all}.String(),
		}},
	})
	if err != nil {
		return nil, false, err
	}
	return now, true, b.endPod(ctx, p, spec.GraceOf(p))
}

// hides returns the error for the case that a runtime mounts volumes inside the home although the Pod mounts folders of
// the home at these places.
func hides(image string, places []string) error {
	return fmt.Errorf("image %s declares a volume that is mounted at %s inside the home, which would hide files there and lose "+
		"new ones, and the Pod cannot prevent that: build the image without that VOLUME. If a link in the home leads there, "+
		"start the workspace on another image and replace the link by a folder", image, strings.Join(places, ", "))
}

// mounts returns the mounts in the workspace's container that are not its Pod's. It returns none if the container
// cannot be inspected. If the container no longer runs, the error is [backend.ErrNotFound].
func (b *Backend) mounts(ctx context.Context, p *corev1.Pod) (mount.Found, error) {
	limit := time.NewTimer(lookFor)
	defer limit.Stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		found, err := sampler.Mounts(ctx, b.api, p)
		if err == nil || errors.Is(err, sampler.ErrNoLook) {
			return found, nil
		}
		now, exists, readErr := object.Live(ctx, b.api.Pods, "pod", p.Name)
		switch {
		case readErr != nil:
			return found, readErr
		case !exists || now.UID != p.UID || now.DeletionTimestamp != nil || !sampler.Running(now):
			return found, fmt.Errorf("pod %s: %w", p.Name, backend.ErrNotFound)
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return found, nil
		case <-ctx.Done():
			return found, cluster.Wrap("looking into pod "+p.Name, ctx.Err())
		}
	}
}

// seen records on the Pod that see has looked, and returns once the cache shows that.
func (b *Backend) seen(ctx context.Context, p *corev1.Pod) error {
	_, err := object.Patch(ctx, b.api.Pods, "recording the look into pod "+p.Name, p, map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{spec.AnnotationUnseen: nil}},
	})
	if err != nil {
		return err
	}
	return object.Shown(ctx, b.api.Pods, b.caches.Pods, "pod", p.Name, p.UID, func(p *corev1.Pod) bool {
		return p.Annotations[spec.AnnotationUnseen] == ""
	})
}
