package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/sampler"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Exec implements [backend.Core].
func (b *Backend) Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error) {
	p, err := b.workspacePod(ctx, id)
	if err != nil {
		return 0, err
	}
	if !sampler.Running(p) {
		return 0, fmt.Errorf("pod %s: %w", p.Name, backend.ErrNotFound)
	}
	if command.Terminal != nil {
		stderr = stdout // it also carries why the command cannot start
	}
	printed := false
	code, err := b.api.Exec(ctx, p.Name, spec.Container, command, noting{stdout, &printed}, noting{stderr, &printed})
	var failed *cluster.NotStartedError
	if errors.As(err, &failed) && !printed { // otherwise its node has lost it
		_, err := fmt.Fprintln(stderr, failed.Message)
		return backend.NotStarted, err
	}
	if err != nil {
		return 0, cluster.Wrap("running a command in pod "+p.Name, err)
	}
	return code, nil
}

// noting is a writer that records whether anything was written.
type noting struct {
	io.Writer
	written *bool
}

// Write implements [io.Writer].
func (n noting) Write(p []byte) (int, error) {
	*n.written = true
	return n.Writer.Write(p)
}
