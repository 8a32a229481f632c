package image

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

const (
	// createLimit bounds the creation of a helper, and removeLimit its removal.
	createLimit = 10 * time.Second
	removeLimit = 10 * time.Second
	// abandoned is the age from which the process of a helper is taken for dead. It is longer
	// than any helper may run.
	abandoned = 5 * time.Minute
	// What a helper may use.
	maxMemory = 64 << 20
	maxPids   = 64
	maxOutput = 64 << 10
)

// Helper runs the program of the storage job's image once, in a short-lived container: for the
// firewall rules, and for measuring homes. Callers say which mounts, networks and capabilities it
// gets; it has nothing else.
type Helper struct {
	API *engine.Client
	// Image is the storage job's image.
	Image string
	// Labels mark the containers.
	Labels map[string]string
	// All are the labels of each kind of helper. What a process that has died has left of any of them,
	// the next helper removes: there may be none of the same kind for long.
	All []map[string]string
}

// Run completes the description of the container, runs it, removes it, and returns what it
// has printed last. An image that is missing or not of this release is an error as of
// [Store.CheckJobs]. doing says what for, in errors. When ctx ends the container is killed.
func (h Helper) Run(ctx context.Context, doing string, config container.Config, host container.HostConfig) (
	output []byte, err error) {
	for _, labels := range h.All {
		if err := h.removeAbandoned(ctx, labels); err != nil {
			return nil, err
		}
	}
	if err := h.Check(ctx); err != nil {
		return nil, err
	}
	pids := int64(maxPids)
	config.Image, config.User, config.Labels = h.Image, "0:0", h.Labels
	host.CapDrop, host.SecurityOpt, host.ReadonlyRootfs = []string{"ALL"}, []string{"no-new-privileges"}, true
	host.Resources.Memory, host.Resources.PidsLimit = maxMemory, &pids
	host.LogConfig = container.LogConfig{
		Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "1"},
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// A request that is given up may still be carried out, and nobody would know of its container: so it
	// is waited for although ctx ends meanwhile.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	made, err := h.API.ContainerCreate(detached, &config, &host, nil, nil, "")
	cancel()
	if err != nil {
		return nil, engine.Wrap("creating a container for "+doing, err)
	}
	defer func() {
		// Also when ctx has ended: it must not stay.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
		defer cancel()
		gone := h.API.ContainerRemove(ctx, made.ID, container.RemoveOptions{Force: true})
		if gone != nil && !errdefs.IsNotFound(gone) && err == nil {
			err = engine.Wrap("removing the container for "+doing, gone)
		}
	}()
	if err := h.API.ContainerStart(ctx, made.ID, container.StartOptions{}); err != nil {
		return nil, engine.Wrap("starting the container for "+doing, err)
	}
	ended, failed := h.API.ContainerWait(ctx, made.ID, container.WaitConditionNotRunning)
	select {
	case <-ended:
	case err := <-failed:
		return nil, engine.Wrap("waiting for the container for "+doing, err)
	}
	return h.output(ctx, doing, made.ID)
}

// Check is [Store.CheckJobs] of the helper's image.
func (h Helper) Check(ctx context.Context) error {
	return New(h.API, spec.Options{}).CheckJobs(ctx, h.Image)
}

// output is what the container has printed.
func (h Helper) output(ctx context.Context, doing, id string) ([]byte, error) {
	logs, err := h.API.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return nil, engine.Wrap("reading the output of the container for "+doing, err)
	}
	defer logs.Close()
	var out limited
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		return nil, engine.Wrap("reading the output of the container for "+doing, err)
	}
	return out.Bytes(), nil
}

// limited keeps a bounded amount of what is written to it.
type limited struct{ bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, errors.New("the program prints too much")
	}
	return l.Buffer.Write(p)
}

// removeAbandoned removes the helpers with these labels whose processes have died.
func (h Helper) removeAbandoned(ctx context.Context, labels map[string]string) error {
	args := filters.NewArgs()
	for k, v := range labels {
		args.Add("label", k+"="+v)
	}
	list, err := h.API.ContainerList(ctx, container.ListOptions{All: true, Filters: args})
	if err != nil {
		return engine.Wrap("listing helpers", err)
	}
	if len(list) == 0 {
		return nil
	}
	now, err := h.API.Now(ctx)
	if err != nil {
		return err
	}
	for _, c := range list {
		if now.Sub(time.Unix(c.Created, 0)) < abandoned || !maps.Equal(pick(c.Labels, labels), labels) {
			continue
		}
		if err := h.API.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true}); err != nil &&
			!errdefs.IsNotFound(err) {
			return engine.Wrap("removing a helper that was left behind", err)
		}
	}
	return nil
}

// pick returns the labels of all that like has, too.
func pick(all, like map[string]string) map[string]string {
	found := make(map[string]string, len(like))
	for k := range like {
		if v, ok := all[k]; ok {
			found[k] = v
		}
	}
	return found
}
