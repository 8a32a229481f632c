package memory

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Exec implements [backend.Executor]: it calls [Backend.Run].
func (b *Backend) Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (int, error) {
	if err := b.begin(ctx, "Exec", id); err != nil {
		return 0, err
	}
	b.mu.Lock()
	k, err := b.container(id)
	runs := err == nil && k != nil && k.state.Running
	frozen := runs && k.frozen()
	b.mu.Unlock()
	if !runs {
		return 0, fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	if frozen {
		return 0, frozenError(id)
	}
	if b.Run == nil {
		return 0, nil
	}
	var failed error
	code := b.Run(ctx, command, passing{stdout, &failed}, passing{stderr, &failed})
	return code, errors.Join(ctx.Err(), failed)
}

// passing is a writer that remembers if output could not be forwarded.
type passing struct {
	io.Writer
	failed *error
}

// Write implements [io.Writer].
func (p passing) Write(text []byte) (int, error) {
	n, err := p.Writer.Write(text)
	if err != nil {
		*p.failed = err
	}
	return n, err
}
