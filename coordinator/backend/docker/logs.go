package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Bounds of output: what is read of it, and what Logs returns.
const (
	outputMax = 2 << 20 // two log files: see logging
	logsMax   = 64 << 10
)

// Logs implements [backend.Backend]. It returns at most 64 KiB, the last ones.
func (d *Docker) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	if err := checkID(id); err != nil {
		return "", err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	if err != nil {
		return "", err
	}
	if c == nil || !d.ours(c.Config.Labels, id, KindWorkspace) {
		return "", fmt.Errorf("container %s: %w", name, backend.ErrNotFound)
	}
	body, err := d.api.ContainerLogs(ctx, c.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.Itoa(max(lines, 0))})
	if err != nil {
		return "", wrap("reading the output of container "+name, err)
	}
	defer body.Close()
	var out bytes.Buffer
	if err := split(body, &out, &out); err != nil {
		return "", wrap("reading the output of container "+name, err)
	}
	text := out.Bytes()
	if len(text) > logsMax {
		text = text[len(text)-logsMax:]
	}
	return plain(string(text), logsMax), nil
}

// output returns the last lines of both streams of a container.
func (d *Docker) output(ctx context.Context, containerID, lines string) (stdout, stderr []byte, err error) {
	body, err := d.api.ContainerLogs(ctx, containerID, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: lines})
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	var out, errs bytes.Buffer
	if err := split(body, &out, &errs); err != nil {
		return nil, nil, err
	}
	return out.Bytes(), errs.Bytes(), nil
}

// split takes the engine's two streams apart, as far as it may be long.
func split(body io.Reader, stdout, stderr io.Writer) error {
	_, err := stdcopy.StdCopy(stdout, stderr, io.LimitReader(body, outputMax))
	return err
}
