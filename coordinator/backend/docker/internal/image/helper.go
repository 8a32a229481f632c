package image

import (
	"context"
	"maps"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

const (
	// createLimit bounds the creation of a helper, and removeLimit its removal.
	createLimit = 10 * time.Second
	removeLimit = 10 * time.Second
	// abandoned is the age of a helper from which the process that started it is assumed dead. No helper may run that
	// long.
	abandoned = 5 * time.Minute
	// The limits of a helper.
	maxMemory = 64 << 20
	maxPids   = 64
	maxOutput = 64 << 10
)

// Helper runs the program of the storage job's image once, in a short-lived container: for the firewall rules, and for
// measuring homes. Its callers define its mounts, networks and capabilities; it has no others.
type Helper struct {
	API *engine.Client
	// Image is the storage job's image.
	Image string
	// Labels mark the containers.
	Labels map[string]string
	// All are the labels of each kind of helper. Before a helper starts, it removes abandoned helpers of every kind,
	// because the next helper of the same kind may come much later.
	All []map[string]string
}

// Run completes the description of the container, runs and removes it, and returns the last line that it printed. For
// an image that is missing or from another release, it returns the errors of [Store.CheckJobs]. Errors begin with
// doing. When ctx ends, Run kills the container.
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
	// Wait for the answer even if ctx ends: the engine might still carry out the request, and leave a container that
	// nobody knows of.
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), createLimit)
	made, err := h.API.ContainerCreate(detached, &config, &host, nil, nil, "")
	cancel()
	if err != nil {
		return nil, engine.Wrap("creating a container for "+doing, err)
	}
	defer func() {
		// Remove the container even if ctx has ended.
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

// Check is [Store.CheckJobs] for the helper's image.
func (h Helper) Check(ctx context.Context) error {
	return New(h.API, spec.Options{}).CheckJobs(ctx, h.Image)
}

// output returns the container's output.
func (h Helper) output(ctx context.Context, doing, id string) ([]byte, error) {
	logs, err := h.API.ContainerLogs(ctx, id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "20"})
	if err != nil {
		return nil, engine.Wrap("reading the output of the container for "+doing, err)
	}
	defer logs.Close()
	out := backend.Limited{Max: maxOutput}
	if _, err := stdcopy.StdCopy(&out, &out, logs); err != nil {
		return nil, engine.Wrap("reading the output of the container for "+doing, err)
	}
	return out.Bytes(), nil
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

// pick returns the labels in all whose keys are also in like.
func pick(all, like map[string]string) map[string]string {
	found := make(map[string]string, len(like))
	for k := range like {
		if v, ok := all[k]; ok {
			found[k] = v
		}
	}
	return found
}
