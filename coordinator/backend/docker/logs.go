package docker

import (
	"bytes"
	"context"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxOutput bounds the output that is read, in bytes: a container has two log files, see logging.
const maxOutput = 2 << 20

// Logs implements [backend.Core]. It returns both streams in the order of their lines, and at most the last 64 KiB.
func (d *Docker) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	var out bytes.Buffer
	if err := d.print(ctx, id, container.LogsOptions{Tail: strconv.Itoa(max(lines, 0))}, func(r io.Reader) error {
		return demultiplex(r, &out, &out)
	}); err != nil {
		return "", err
	}
	return backend.EndOfLog(out.Bytes()), nil
}

// Follow implements [backend.Core].
func (d *Docker) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	o := container.LogsOptions{Tail: strconv.Itoa(max(lines, 0)), Follow: true}
	return d.print(ctx, id, o, func(r io.Reader) error {
		_, err := stdcopy.StdCopy(to, to, r)
		return err
	})
}

// print calls read with both streams of the workspace's container, as the engine sends them. To the engine, a negative
// number of lines means all lines.
func (d *Docker) print(
	ctx context.Context, id workspace.ID, o container.LogsOptions, read func(io.Reader) error,
) error {
	c, err := d.own(ctx, id)
	if err != nil {
		return err
	}
	o.ShowStdout, o.ShowStderr = true, true
	body, err := d.api.ContainerLogs(ctx, c.ID, o)
	if err == nil {
		defer body.Close()
		err = read(body)
	}
	return engine.Wrap("reading the output of container "+id.ContainerName(), err)
}

// output returns the last lines of a container's two streams, separately.
func (d *Docker) output(ctx context.Context, containerID, lines string) (stdout, stderr []byte, err error) {
	body, err := d.api.ContainerLogs(ctx, containerID, container.LogsOptions{
		ShowStdout: true, ShowStderr: true, Tail: lines,
	})
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	var out, errs bytes.Buffer
	if err := demultiplex(body, &out, &errs); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), errs.Bytes(), nil
}

// demultiplex separates the two streams that the engine sends as one, up to maxOutput bytes.
func demultiplex(body io.Reader, stdout, stderr io.Writer) error {
	_, err := stdcopy.StdCopy(stdout, stderr, io.LimitReader(body, maxOutput))
	return err
}
