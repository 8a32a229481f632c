package kubernetes

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Logs implements [backend.Core]. It returns at most the last 64 KiB.
func (b *Backend) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	var text []byte
	if err := b.print(ctx, id, lines, false, func(r io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(r, maxOutput))
		return err
	}); err != nil {
		return "", err
	}
	return backend.EndOfLog(text), nil
}

// Follow implements [backend.Core].
func (b *Backend) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	return b.print(ctx, id, lines, true, func(r io.Reader) error {
		_, err := io.Copy(to, r)
		return err
	})
}

// print calls read with the last lines of the output of the workspace's Pod and, if follow is set, with the output that
// follows.
func (b *Backend) print(
	ctx context.Context, id workspace.ID, lines int, follow bool, read func(io.Reader) error,
) error {
	p, err := b.workspacePod(ctx, id)
	if err != nil {
		return err
	}
	doing, n := "reading the output of pod "+p.Name, int64(max(lines, 0))
	o := &corev1.PodLogOptions{Container: spec.Container, TailLines: &n, Follow: follow}
	body, err := b.api.Logs(ctx, p.Name, o)
	if object.Missing(err) || apierrors.IsBadRequest(err) { // the container does not exist yet
		return fmt.Errorf("%s: %w: %w", doing, backend.ErrNotFound, err)
	}
	if err == nil {
		defer body.Close()
		if err = read(body); err == nil {
			err = ctx.Err() // a cancelled stream may look like one that has ended
		}
	}
	return cluster.Wrap(doing, err)
}

// workspacePod returns the workspace's Pod, or [backend.ErrNotFound].
func (b *Backend) workspacePod(ctx context.Context, id workspace.ID) (*corev1.Pod, error) {
	if err := backend.CheckID(id); err != nil {
		return nil, err
	}
	p, exists, err := object.Live(ctx, b.api.Pods, "pod", id.ContainerName())
	if err == nil && (!exists || !b.owns(p, id, spec.KindWorkspace)) {
		err = fmt.Errorf("pod %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	return p, err
}
